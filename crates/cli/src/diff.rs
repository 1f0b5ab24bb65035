//! `diff`: a session's patch, byte for byte as the journal recorded it.

use crate::args::{DiffArgs, Format};
use crate::home::Home;
use crate::refusal::Refusal;
use crate::run::{self, session};
use crate::{exit, render, terminal};

pub(crate) fn diff(args: &DiffArgs) -> u8 {
    match read(args) {
        Ok(bytes) => {
            terminal::out_bytes(&bytes);
            exit::DONE
        }
        Err(refusal) => render::refused(Format::Text, &refusal),
    }
}

fn read(args: &DiffArgs) -> Result<Vec<u8>, Refusal> {
    let home = Home::open()?;
    run::runtime()?.block_on(async {
        let view = countersign_engine::view(home.store.as_ref(), &args.id).await?;
        session::patch(&home, &args.id, &view)
    })
}
