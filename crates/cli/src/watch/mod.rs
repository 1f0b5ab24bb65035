//! `watch`: a session as it goes, from its journal alone. Nothing of the session is touched: no lease, no lock, no event.

mod screen;

use countersign_engine::{Clock as _, View};
use countersign_kernel::Session;
use countersign_store::Store as _;
use countersign_types::{Outcome, Reason, SessionId};
use tokio::signal::unix::{SignalKind, signal};

use self::screen::Screen;
use crate::args::{Format, WatchArgs};
use crate::home::Home;
use crate::ports::MachineClock;
use crate::refusal::Refusal;
use crate::result::RunResult;
use crate::run::{self, session};
use crate::trace::{self, Story};
use crate::{exit, lease, render, terminal};

/// Events that are read at a time.
const PAGE: u32 = 500;

pub(crate) fn watch(args: &WatchArgs) -> u8 {
    match follow(args) {
        Ok(code) => code,
        Err(refusal) => render::refused(Format::Text, &refusal),
    }
}

fn follow(args: &WatchArgs) -> Result<u8, Refusal> {
    let home = Home::open()?;
    let runtime = run::runtime()?;
    let mut screen = if args.plain { None } else { Screen::open() };
    let code = runtime.block_on(async {
        tokio::select! {
            code = told(&home, &args.id, &mut screen) => code,
            () = left() => Ok(exit::DONE),
        }
    });
    // The terminal is as it was before anything else is said.
    drop(screen);
    // Whoever waits for a key waits on a thread of their own.
    runtime.shutdown_background();
    code
}

/// Resolves when somebody does not want to look any longer.
async fn left() {
    let listen = || {
        Ok::<_, std::io::Error>((
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ))
    };
    match listen() {
        Ok((mut int, mut term, mut hup)) => {
            tokio::select! {
                _ = int.recv() => {}
                _ = term.recv() => {}
                _ = hup.recv() => {}
            }
        }
        // Then the signals do what they do to every process.
        Err(_) => std::future::pending().await,
    }
}

async fn told(home: &Home, id: &SessionId, screen: &mut Option<Screen>) -> Result<u8, Refusal> {
    session::known(home, id).await?;
    let mut story = Story::default();
    let (mut after, mut seen, mut waiting) = (0, None, lease::Waiting::default());
    loop {
        let driven = lease::held(home, id);
        let seq = home.store.session(id).await?.seq;
        if seq > after || seen.is_none() {
            let view = countersign_engine::view(home.store.as_ref(), id).await?;
            if let Some(session) = &view.session {
                after = lines(home, id, session, after, &mut story, screen.as_mut()).await?;
            }
            seen = Some(view);
        }
        if let (Some(screen), Some(view)) = (screen.as_mut(), &seen)
            && screen.show(view, &story, MachineClock.now())
        {
            return Ok(exit::DONE);
        }
        if let Some(view) = &seen
            && let Some((outcome, _)) = view.outcome
            // Asked to pause, and not yet at rest.
            && !(driven && outcome == Outcome::Parked)
        {
            return Ok(ended(home, view, outcome, screen));
        }
        if !waiting.goes_on(driven).await {
            *screen = None;
            let (word, idle) = lease::idle(id, lease::status(&home.store.session(id).await?));
            terminal::out_line(&idle);
            return Ok(if word == lease::LOST { exit::NEGATIVE } else { exit::DONE });
        }
    }
}

/// Tells what is new, and gives the number of the last event.
async fn lines(
    home: &Home,
    id: &SessionId,
    session: &Session,
    mut after: u64,
    story: &mut Story,
    mut screen: Option<&mut Screen>,
) -> Result<u64, Refusal> {
    loop {
        let page = home.store.events(id, after, PAGE).await?;
        let Some(last) = page.events.last() else { return Ok(after) };
        after = last.seq;
        for stored in &page.events {
            for line in story.lines(home.store.as_ref(), id, session, stored).await? {
                match &mut screen {
                    Some(screen) => screen.add(line),
                    None => terminal::out_line(&trace::dressed(&line, false)),
                }
            }
        }
        if after >= page.seq {
            return Ok(after);
        }
    }
}

/// The last lines of a session that is over, or that nobody drives until it is resumed.
fn ended(home: &Home, view: &View, outcome: Outcome, screen: &mut Option<Screen>) -> u8 {
    *screen = None;
    terminal::out_line(&render::summary(&RunResult::of(view, &home.session(&view.id))));
    if outcome == Outcome::Parked {
        let approved = view.outcome.is_none_or(|(_, reason)| reason != Reason::Approval);
        let next = if approved { "resume" } else { "approve" };
        terminal::out_line(&format!("it waits: `countersign {next} {}` goes on", view.id));
    }
    exit::DONE
}
