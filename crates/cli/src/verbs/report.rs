//! `nodeward report`: watches for a time, and writes what was seen as a page.

use std::path::{Path, PathBuf};

use anyhow::Result;
use nodeward_agent::socket::DEFAULT_PATH;
use nodeward_model::Escape as _;

use crate::args::ReportArgs;
use crate::machines::SelectedMachine;
use crate::machines::observation::{AgentWatch, WatchProgress, WatchRequest, moves_since, observe};
use crate::message::exit::Exit;
use crate::output::{self, report};
use crate::progress::run_with_progress;
use crate::results::observation::{Unseen, WatchEnd, WatchReport};
use crate::settings::{AgentSettings, SettingsPaths, state_dir};

/// Watches, and writes the page.
pub fn run(args: &ReportArgs, flag: Option<&Path>) -> Result<Exit> {
    let layer = SettingsPaths::from_environment(flag).read_layer()?;
    let mut settings = layer.balance_settings(false)?;
    let chosen = SelectedMachine::open(&args.simulated.machine_args, args.simulated.seed)?;
    settings.groups.extend(chosen.groups());
    let is_stdout = args.output == Path::new("-");
    if !is_stdout {
        output::check_result(&args.output)?;
    }
    let here = match chosen {
        SelectedMachine::Local(_) => {
            Some(LocalSources::begin(args, AgentSettings::resolve(&layer.balance)?)?)
        }
        SelectedMachine::Simulated(_) => None,
    };
    let machine = chosen.into_shared();
    let request = WatchRequest { subject: args.pid, for_ns: args.for_ns, settings };
    let live = WatchProgress::new(args.for_ns);
    let work = || observe(&machine, request, &live);
    let mut seen = run_with_progress(&live, args.progress.mode(), work)??;
    seen.scenario = args.simulated.machine_args.machine.clone();
    if let Some(here) = here {
        here.end(&mut seen);
    }
    write(args, &seen, is_stdout)?;
    Ok(if seen.end == WatchEnd::Stopped { Exit::Interrupted } else { Exit::Done })
}

fn write(args: &ReportArgs, seen: &WatchReport, is_stdout: bool) -> Result<()> {
    let text = match args.json {
        true => format!("{}\n", report::json(seen)),
        false => report::html(seen),
    };
    if is_stdout {
        return output::print(&text);
    }
    output::write_result(&args.output, &text)?;
    output::print(&report::outcome(seen, &args.output, text.len()))
}

/// What is around a watch on this machine: the ledger, and the agent of a balancer.
struct LocalSources {
    began_unix_ms: u64,
    socket: PathBuf,
    agent: AgentWatch,
}

impl LocalSources {
    fn begin(args: &ReportArgs, settings: AgentSettings) -> Result<Self> {
        let socket = settings.socket.unwrap_or_else(|| PathBuf::from(DEFAULT_PATH));
        let agent = AgentWatch::start(&socket, args.pid)?;
        Ok(Self { began_unix_ms: state_dir::now_unix_ms(), socket, agent })
    }

    /// Adds what was heard and written meanwhile.
    fn end(self, seen: &mut WatchReport) {
        seen.began_unix_ms = self.began_unix_ms;
        let decisions = self.agent.seen();
        if let Some(why) = decisions.obstacle.clone() {
            let what = format!("decisions of a balancer at {}", self.socket.escaped());
            seen.unseen.push(Unseen { what, why });
        }
        seen.decisions = Some(decisions);
        self.read_ledger(seen);
    }

    fn read_ledger(&self, seen: &mut WatchReport) {
        let what = "moves by nodeward".to_owned();
        let read = state_dir::ledgers().map_err(|error| format!("{error:#}"));
        let read = read.and_then(|store| {
            moves_since(&store, self.began_unix_ms).map_err(|error| error.to_string())
        });
        match read {
            Ok((moves, unreadable)) => {
                seen.moves = moves;
                let why = format!("{unreadable} entries of the ledger cannot be read");
                seen.unseen.extend((unreadable > 0).then_some(Unseen { what, why }));
            }
            Err(why) => seen.unseen.push(Unseen { what, why }),
        }
        if !rustix::process::geteuid().is_root() {
            seen.unseen.push(Unseen {
                what: "moves by others with nodeward".to_owned(),
                why: "each user has a ledger; run as root to see that of the balancer".to_owned(),
            });
        }
    }
}
