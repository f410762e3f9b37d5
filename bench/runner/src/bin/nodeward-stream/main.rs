//! `nodeward-stream`: a process that goes through its memory a given number of times, and checks
//! that it holds what was written. Its duration shows the cost of its placement.

#![forbid(unsafe_code)]

mod args;
mod duty_schedule;
mod pattern;
mod thread_place;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::thread::{self, Builder};

use anyhow::{Context, Result, anyhow, ensure};
use nodeward_lab_counts::mark::{Mark, mark};
use nodeward_linux::mempolicy;
use nodeward_linux::own_process::{self, AreaBacking, MappedArea};
use nodeward_model::{NodeId, Nodemask};
use nodeward_runner::affinity;
use serde_json::{Value, json};

use args::Args;
use duty_schedule::DutySchedule;
use pattern::{MemoryWalk, StreamPage};
use thread_place::ThreadPlace;

/// Length after which memory that is split over nodes changes to the next node.
const CHUNK_BYTES: usize = 2 << 20;

fn main() -> ExitCode {
    match run(&Args::parse_checked()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("nodeward-stream: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Runs the stream and returns the number of lines with a wrong value.
fn run(args: &Args) -> Result<u64> {
    own_process::disable_huge_pages().context("cannot switch transparent huge pages off")?;
    let page_bytes = rustix::param::page_size();
    let bytes = usize::try_from(args.size)?.next_multiple_of(page_bytes);
    ensure!(bytes > 0, "--size is zero; ask for more");
    let file = args.file.as_deref().map(|path| file_of(path, bytes as u64)).transpose()?;
    let backing = file.as_ref().map(|file| AreaBacking::SharedFile(file.as_fd()));
    let area = MappedArea::map(bytes, backing.unwrap_or(AreaBacking::Anonymous))
        .context("cannot map that much memory")?;
    let pages: Vec<StreamPage> = area.words().chunks_exact(page_bytes / 8).collect();
    place(args, &pages, page_bytes)?;
    print(&json!({ "ready": true, "pid": std::process::id(), "bytes": bytes }));
    if args.wait {
        io::stdin().read_line(&mut String::new()).context("nobody said when to begin")?;
    }
    args.slot.inspect(|&slot| mark(Mark::Attach(slot)));
    args.slot.filter(|_| args.by_frame).inspect(|&slot| mark(Mark::ByFrame(slot)));
    let mismatches = work(args, &pages)?;
    args.slot.inspect(|&slot| mark(Mark::Detach(slot)));
    print(&json!({ "done": true, "mismatches": mismatches }));
    Ok(mismatches)
}

/// Opens the file that processes share, at its full length.
fn file_of(path: &Path, bytes: u64) -> Result<File> {
    let open = || {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len(bytes).map(|()| file)
    };
    open().with_context(|| format!("{} cannot be made; name another", path.display()))
}

/// Fills the pages of this process's threads, each from its node.
fn place(args: &Args, pages: &[StreamPage], page_bytes: usize) -> Result<()> {
    let places = ThreadPlace::all(args);
    let threads = args.threads as usize * args.process.1;
    let node_of = |number: usize, owner: &ThreadPlace| match (&args.homes, &args.nodes) {
        (Some(homes), _) => Some(nth_node(homes, owner.home(args.part))),
        (_, Some(nodes)) => Some(nth_node(nodes, number * page_bytes / CHUNK_BYTES)),
        _ => None,
    };
    let mut bound = None;
    for (number, page) in pages.iter().enumerate() {
        let owner = pattern::owning_thread(args.part, number, pages.len(), threads);
        let Some(owner) = places.iter().find(|place| place.number == owner) else { continue };
        let node = node_of(number, owner);
        if node != bound {
            bind(node)?;
            bound = node;
        }
        pattern::fill(page, number);
    }
    Ok(mempolicy::default_memory()?)
}

/// Returns the nodes in turn. A mask that was parsed is never empty.
fn nth_node(nodes: &Nodemask, number: usize) -> NodeId {
    nodes.iter().nth(number % nodes.len().max(1)).unwrap_or(NodeId(0))
}

fn bind(node: Option<NodeId>) -> Result<()> {
    let Some(node) = node else { return Ok(mempolicy::default_memory()?) };
    mempolicy::bind_memory(&Nodemask::from_iter([node]))
        .with_context(|| format!("no memory from node {node}; choose another"))
}

fn work(args: &Args, pages: &[StreamPage]) -> Result<u64> {
    thread::scope(|scope| {
        let worker = |(thread, place): (usize, ThreadPlace)| {
            let name = args.pools.get(place.pool.0);
            let named = name.map_or_else(Builder::new, |name| Builder::new().name(name.clone()));
            named.spawn_scoped(scope, move || run_thread(args, pages, thread, place))
        };
        let places = ThreadPlace::all(args).into_iter().enumerate();
        let workers: io::Result<Vec<_>> = places.map(worker).collect();
        workers.context("no thread can be started")?.into_iter().try_fold(
            0,
            |mismatches, worker| {
                let lost = worker.join().map_err(|_| anyhow!("a thread panicked; see above"))??;
                Ok(mismatches + lost)
            },
        )
    })
}

/// Runs one thread's passes. Returns the number of lines with a wrong value.
fn run_thread(args: &Args, pages: &[StreamPage], thread: usize, place: ThreadPlace) -> Result<u64> {
    if let Some(nodes) = args.homes.as_ref().or(args.stay.as_ref()) {
        affinity::confine_this_thread(&affinity::cpus_of(nth_node(nodes, place.home(args.part)))?)?;
    }
    let turns = args.turn.map(|stretch_ns| DutySchedule::new(stretch_ns, args.odd));
    let mut walk = MemoryWalk::new(pages, args.part, place);
    let mut mismatches = 0;
    for pass in 1..=args.passes {
        mismatches += walk.pass(|| turns.iter().for_each(|turns| turns.wait_for_turn()));
        print(&json!({ "thread": thread, "pass": pass }));
    }
    Ok(mismatches)
}

/// Prints one line on standard output at once. A closed reader is not an error.
fn print(line: &Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
