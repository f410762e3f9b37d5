//! `nodeward top`: watches nodes, processes and groups, on a screen or line by line.

mod canvas;
mod decisions;
mod details;
mod inbox;
mod messages;
mod move_thread;
mod move_words;
mod mover;
mod observer;
mod reader;
mod sampler;
mod screen;
mod terminal;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use nodeward_machine::Machine;
use nodeward_model::{Escape as _, Pid};

use self::decisions::DecisionSource;
use self::inbox::Inbox;
use self::move_thread::MoveThread;
use self::mover::TopMover;
use self::observer::MachineObserver;
use self::reader::ReaderHandle;
use self::screen::Screen;
use crate::args::TopArgs;
use crate::machines::SelectedMachine;
use crate::message::exit::Exit;
use crate::output::topology::Charset;
use crate::output::{print, top};
use crate::settings::{MoveSettings, SettingsPaths};
use crate::top::{Model, Setup, sorted};

/// Watches until it is ended.
pub fn run(args: &TopArgs, flag: Option<&Path>) -> Result<Exit> {
    if !args.batch {
        terminal::check()?;
    }
    let layer = SettingsPaths::from_environment(flag).read_layer()?;
    let chosen = SelectedMachine::open(&args.simulated.machine_args, args.simulated.seed)?;
    let mut settings = layer.balance_settings(false)?;
    settings.groups.extend(chosen.groups());
    let is_local = matches!(chosen, SelectedMachine::Local(_));
    let chosen = Arc::new(chosen);
    let machine: Arc<dyn Machine> = chosen.another();
    let decisions = match &args.by.agent {
        Some(path) => DecisionSource::agent(path, Arc::clone(&machine))?,
        None => DecisionSource::dry_run(Arc::clone(&machine), settings)?,
    };
    let observer = MachineObserver::new(machine, is_local, decisions)?;
    if args.batch {
        return batch(args, observer);
    }
    let settings = MoveSettings::resolve(args.layer.over(layer.moves));
    let exclusive = Arc::<Mutex<()>>::default();
    let (inbox, inbox_reader) = Inbox::open()?;
    let interval = Duration::from_nanos(args.interval);
    let agent = args.by.agent.clone();
    let mover = TopMover { machine: chosen, settings, agent, exclusive: Arc::clone(&exclusive) };
    let mover = MoveThread::new(mover, inbox.clone());
    let model = Model::new(setup(args), args.sort, args.filter.clone());
    let reader = ReaderHandle::start(observer, interval, exclusive, inbox.clone())?;
    Screen::new(model, reader, mover, (&inbox, inbox_reader), interval)?.run()
}

/// Prints refreshes. The first one only begins to watch: most figures are of a time.
fn batch(args: &TopArgs, mut observer: MachineObserver) -> Result<Exit> {
    let mut seen: Vec<Pid> = Vec::new();
    observer.refresh(&seen)?;
    let mut number = 0;
    while args.iterations.is_none_or(|iterations| number < iterations) {
        match observer.is_local() {
            true => thread::sleep(Duration::from_nanos(args.interval)),
            false => observer.pass(args.interval),
        }
        let sample = observer.refresh(&seen)?;
        let rows = sorted(&sample.processes, &args.filter, args.sort);
        print(&match args.json {
            true => format!("{}\n", top::json(&sample, &rows)),
            false => format!("{}\n", top::text(&sample, &rows)),
        })?;
        seen = rows.iter().map(|process| process.pid).collect();
        number += 1;
    }
    Ok(Exit::Done)
}

fn setup(args: &TopArgs) -> Setup {
    let machine =
        args.simulated.machine_args.machine.as_ref().map(|name| format!(" of sim:{name}"));
    let agent = args.by.agent.as_ref().map(|path| format!(" by {}", path.escaped()));
    let no_colour = std::env::var_os("NO_COLOR").unwrap_or_default();
    Setup {
        whereabouts: machine.or(agent).unwrap_or_default(),
        charset: Charset::of_locale(),
        has_colours: no_colour == OsStr::new(""),
    }
}
