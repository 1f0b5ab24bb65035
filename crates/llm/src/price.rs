use countersign_types::Money;
use serde::{Deserialize, Serialize};

use crate::Usage;

/// Tokens that one price unit buys.
const TOKENS_PER_UNIT: u128 = 1_000_000;

/// What a model costs, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    pub input: Money,
    pub output: Money,
    /// None: cached input costs what other input costs.
    pub cached: Option<Money>,
    /// None: input that goes into a cache costs what other input costs.
    pub cache_write: Option<Money>,
}

impl Price {
    /// The cost of `usage`, rounded up to a whole micro-dollar. None when input or output tokens are unknown.
    #[must_use]
    pub fn cost(&self, usage: Usage) -> Option<Money> {
        let (input, output) = (usage.input?, usage.output?);
        let cached = usage.cached.unwrap_or(0).min(input);
        let written = usage.cache_write.unwrap_or(0).min(input - cached);
        let part = |tokens: u64, price: Money| u128::from(tokens) * u128::from(price.micro_usd());
        let total = part(input - cached - written, self.input)
            + part(written, self.cache_write.unwrap_or(self.input))
            + part(cached, self.cached.unwrap_or(self.input))
            + part(output, self.output);
        u64::try_from(total.div_ceil(TOKENS_PER_UNIT)).ok().map(Money::from_micro_usd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_usage_has_an_unknown_cost_and_known_usage_an_exact_one() {
        let usd = |text: &str| text.parse::<Money>().unwrap();
        let price = Price {
            input: usd("2"),
            output: usd("8"),
            cached: Some(usd("0.5")),
            cache_write: Some(usd("3")),
        };
        let usage = Usage { input: Some(1000), output: Some(100), cached: Some(400), ..Usage::default() };
        // 600 x 2 + 400 x 0.5 + 100 x 8 = 2200 micro-dollars
        assert_eq!(price.cost(usage), Some(Money::from_micro_usd(2200)));
        // 100 of them at 3 instead of 2.
        let written = Usage { cache_write: Some(100), ..usage };
        assert_eq!(price.cost(written), Some(Money::from_micro_usd(2300)));
        assert_eq!(price.cost(Usage { output: None, ..usage }), None);
        assert_eq!(price.cost(Usage { input: None, ..usage }), None);
        // A provider that reports more cached than input must not underflow.
        assert_eq!(
            price.cost(Usage { input: Some(1), output: Some(0), cached: Some(9), ..Usage::default() }),
            Some(Money::from_micro_usd(1))
        );
    }
}
