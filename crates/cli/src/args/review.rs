//! The flags that name a reviewer.

use std::path::PathBuf;

use clap::Args;

/// A second model that looks over what the checks passed.
#[derive(Debug, Args)]
pub(crate) struct ReviewArgs {
    /// A second model reviews what the checks passed: provider:model or scripted:FILE. It advises, and blocks only with a
    /// command that fails on the work and not on the base
    #[arg(long, value_name = "MODEL")]
    pub(crate) review_model: Option<String>,
    /// Where the reviewer's API lives [default: the vendor's]
    #[arg(long, value_name = "URL", requires = "review_model")]
    pub(crate) review_base_url: Option<String>,
    /// Read the reviewer's API key from this file instead of the vendor's variable
    #[arg(long, value_name = "FILE", requires = "review_model")]
    pub(crate) review_api_key_file: Option<PathBuf>,
    /// Reviews of one run, at most; what the last one confirms is final [default: 2]
    #[arg(long, value_name = "N", requires = "review_model", value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) review_rounds: Option<u32>,
    /// Without an answer of the reviewer nothing is verified
    #[arg(long, requires = "review_model")]
    pub(crate) review_required: bool,
}
