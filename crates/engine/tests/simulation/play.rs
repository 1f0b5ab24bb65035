//! Plays one story to its end: processes come, drive, and are struck, until the turn is over.

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex};

use countersign_engine::{
    CellChoice, Desk, Ended, EngineError, Home, Interrupt, NewSession, NoCrash, Ports, Sources, resume,
    submit,
};
use countersign_kernel::{Command, Event, Session, StopHow, apply};
use countersign_llm::ModelRef;
use countersign_redact::Redactor;
use countersign_store::{Store as _, StoreError, StoredEvent};
use countersign_tree::{Memo, ObjectStore};
use countersign_types::{PrincipalId, SessionId, TenantId};
use futures::future::FutureExt as _;

use super::cells::SimCells;
use super::model::SimModel;
use super::store::SimStore;
use super::story::{Asked, Blow, Story};
use super::time::{Task, lock};
use super::world::{Nobody, Process, Signals, SimIds, World};

/// More than any story needs; reaching it means that something waits for ever.
const MOST_STEPS: u64 = 200_000;
const MOST_PROCESSES: usize = 400;

/// How a story came out.
#[derive(Debug)]
pub struct Played {
    pub world: Arc<World>,
    pub session: Session,
    pub events: Vec<Event>,
    pub stored: Vec<StoredEvent>,
}

pub fn session_id() -> SessionId {
    SessionId::new("simulated").expect("a plain word")
}

/// What waits for nothing: a call of the store in memory.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the store in memory waits for nothing")
}

type Results = Arc<Mutex<Vec<Result<Ended, EngineError>>>>;

struct Stage<'a> {
    world: Arc<World>,
    dir: &'a Path,
    controllers: Vec<(Arc<Process>, Task)>,
    /// People at other terminals.
    visitors: Vec<Task>,
    results: Results,
    over: bool,
}

impl Stage<'_> {
    fn ports(&self, process: &Arc<Process>) -> Result<Ports, String> {
        let said = |what: &str, e: &dyn std::fmt::Display| format!("{what}: {e}");
        let world = &self.world;
        let cells = Arc::new(SimCells { world: Arc::clone(world), process: Arc::clone(process) });
        let model: ModelRef = "scripted:simulated".parse().map_err(|e| said("model", &e))?;
        Ok(Ports {
            clock: Arc::new(world.time.clone()),
            ids: Arc::new(SimIds(Arc::clone(world))),
            store: Arc::new(SimStore { world: Arc::clone(world), process: Arc::clone(process) }),
            objects: Arc::new(ObjectStore::open(self.dir.join("objects")).map_err(|e| said("objects", &e))?),
            memo: Arc::new(Memo::open(self.dir.join("memo")).map_err(|e| said("memo", &e))?),
            cells: CellChoice { working: cells.clone(), rooms: Some(cells) },
            provider: Arc::new(SimModel {
                world: Arc::clone(world),
                process: Arc::clone(process),
                name: model,
            }),
            reviewer: None,
            redactor: Arc::new(Redactor::new([])),
            interrupts: Arc::new(Signals(Arc::clone(process))),
            observer: Arc::new(Nobody),
            artifacts: Arc::new(Nobody),
            profiles: Arc::new(Nobody),
            sources: Sources::Git { git_dir: "/repository/.git".into(), work_tree: None },
            candidate: None,
            home: Home { session: "/home/session".into(), layers: "/home/layers".into() },
            crashes: Arc::new(NoCrash),
        })
    }

    fn submit(&self) -> Result<(), String> {
        let ports = self.ports(&Arc::new(Process::new(0)))?;
        let new = NewSession {
            id: session_id(),
            tenant: TenantId::new("simulated").map_err(|e| e.to_string())?,
            principal: PrincipalId::new("simulated").map_err(|e| e.to_string())?,
            contract: &self.world.story.contract,
            input: b"Mend the answer.",
            settings: None,
            approved: true,
        };
        at_once(submit(&ports, new)).map_err(|e| format!("submit: {e}"))
    }

    fn start(&mut self) -> Result<(), String> {
        let number = self.controllers.len() + 1;
        if number > MOST_PROCESSES {
            return Err(format!("{number} processes and no end: {:?}", lock(&self.results).last()));
        }
        let process = Arc::new(Process::new(number));
        let ports = self.ports(&process)?;
        let results = Arc::clone(&self.results);
        let drive = async move {
            let ended = resume(&ports, &session_id(), &format!("process {number}")).await;
            lock(&results).push(ended);
        };
        self.controllers.push((process, Task::new(drive.boxed_local())));
        Ok(())
    }

    /// Whoever drives now, as far as anybody can see.
    fn current(&mut self) -> Option<&mut (Arc<Process>, Task)> {
        self.controllers.iter_mut().rev().find(|(_, task)| task.lives())
    }

    fn visit(&mut self, asked: Asked) {
        let world = Arc::clone(&self.world);
        let process = Arc::new(Process::new(0));
        let results = Arc::clone(&self.results);
        let visit = async move {
            let store = SimStore { world: Arc::clone(&world), process };
            let ids = SimIds(Arc::clone(&world));
            let desk = Desk { store: &store, ids: &ids, clock: &world.time };
            let command = match asked {
                Asked::Cancel => Command::Cancel(StopHow::Request),
                Asked::Pause => Command::Drain(StopHow::Request),
                Asked::Revoke(capability) => Command::Revoke(capability),
            };
            let said = match PrincipalId::new("somebody") {
                Ok(somebody) => desk.ask(&session_id(), &somebody, &command, Some("because")).await,
                Err(error) => Err(EngineError::Bug(error.to_string())),
            };
            match said {
                Ok(_)
                | Err(EngineError::Refused(_) | EngineError::Store(StoreError::CommitUnknown { .. })) => {}
                Err(error) => lock(&results).push(Err(error)),
            }
        };
        self.visitors.push(Task::new(visit.boxed_local()));
    }

    fn strike(&mut self, blow: Blow) {
        if let Blow::Ask(asked) = blow {
            return self.visit(asked);
        }
        let now = self.world.time.at();
        let Some((process, task)) = self.current() else { return };
        match blow {
            Blow::Kill => {
                process.die();
                task.kill();
            }
            Blow::Stall(ms) => task.stalled_until = now + ms,
            Blow::Cancel(how) => process.interrupt(Interrupt::Cancel(how)),
            Blow::Drain => process.interrupt(Interrupt::Drain),
            Blow::Ask(_) => {}
        }
    }

    /// What a process said when it went. An error that no story explains is a fault of ours.
    fn hear(&mut self) -> Result<(), String> {
        for result in lock(&self.results).drain(..) {
            match result {
                Ok(Ended::Over(_)) => self.over = true,
                Ok(Ended::Parked(_)) => {}
                Err(EngineError::LeaseLost | EngineError::Store(StoreError::LeaseHeld { .. })) => {}
                Err(EngineError::Store(StoreError::CommitUnknown { .. })) => {}
                other => return Err(format!("a process ended with {other:?}")),
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        let (mut steps, mut next_start) = (0, 0);
        loop {
            self.hear()?;
            let now = self.world.time.at();
            let driven = self.controllers.iter().any(|(_, task)| task.lives() && task.stalled_until <= now);
            let busy = self.controllers.iter().map(|(_, task)| task).chain(&self.visitors).any(Task::lives);
            if self.over && !busy {
                return Ok(());
            }
            if !self.over && !driven && next_start <= now {
                self.start()?;
                next_start = now + 50 + self.world.dice.below(self.world.story.restart);
                continue;
            }
            let drivers = self.controllers.iter().map(|(_, task)| task);
            let ready: Vec<usize> = drivers
                .chain(&self.visitors)
                .enumerate()
                .filter(|(_, task)| task.can_run(now))
                .map(|(n, _)| n)
                .collect();
            if ready.is_empty() {
                let stalls =
                    self.controllers.iter().filter(|(_, task)| task.lives() && task.stalled_until > now);
                let starts = (!self.over && !driven).then_some(next_start);
                let next =
                    stalls.map(|(_, task)| task.stalled_until).chain(self.world.time.next()).chain(starts);
                let next = next.min().ok_or("nothing will ever happen again")?;
                self.world.advance(next);
                continue;
            }
            steps += 1;
            if steps > MOST_STEPS {
                return Err("it goes on for ever".to_owned());
            }
            if let Some(blow) = self.world.story.blows.get(&steps).copied() {
                self.strike(blow);
                continue;
            }
            let pick = usize::try_from(self.world.dice.below(ready.len() as u64)).unwrap_or(0);
            let pick = ready[pick];
            match self.controllers.get_mut(pick) {
                Some((_, driver)) => driver.run(),
                None => self.visitors[pick - self.controllers.len()].run(),
            }
        }
    }
}

/// Plays a story in an empty directory.
pub fn play(story: Story, dir: &Path) -> Result<Played, String> {
    let world = Arc::new(World::new(story));
    let mut stage = Stage {
        world: Arc::clone(&world),
        dir,
        controllers: Vec::new(),
        visitors: Vec::new(),
        results: Results::default(),
        over: false,
    };
    stage.submit()?;
    // What an onlooker saw says more than what came of it.
    stage.run().map_err(|error| world.wrong().into_iter().next().unwrap_or(error))?;
    let before = at_once(world.store.load(&session_id())).map_err(|e| e.to_string())?;
    // Once more: there is nothing left to do, and nothing is done.
    stage.over = false;
    stage.start()?;
    stage.run()?;
    let loaded = at_once(world.store.load(&session_id())).map_err(|e| e.to_string())?;
    if loaded.events != before.events {
        return Err(format!(
            "a resume of what is over added {} events",
            loaded.events.len() - before.events.len()
        ));
    }
    let mut session = Session::new(world.story.contract.clone());
    let mut events = Vec::new();
    for line in &loaded.events {
        let event: Event = serde_json::from_value(line.data.clone()).map_err(|e| e.to_string())?;
        apply(&mut session, line.at, &event);
        events.push(event);
    }
    Ok(Played { world, session, events, stored: loaded.events })
}
