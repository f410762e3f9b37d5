//! `nodeward-torture`: uses memory of a pager by all means that programs have, while it moves.

#![forbid(unsafe_code)]

mod args;
mod crew;
mod dump;
mod ground;
mod hand;
mod lot;
mod means;
mod pattern;
mod post;
mod report;
mod setting;
mod tally;
mod watch;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Parser;
use nodeward::PagerOptions;

use args::Args;
use crew::{Crew, Ending, Part, Times};
use ground::Ground;
use means::{ALL, BROKEN, Kind, Site, Skipped};
use post::Post;
use report::Report;
use tally::Tally;

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        ALL.iter().for_each(|kind| println!("{:<10}{}", kind.name, kind.what));
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        // Threads may stand still, so they are not waited for.
        Ok(ending) => std::process::exit(i32::from(code(&ending))),
        Err(error) => {
            eprintln!("nodeward-torture: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn code(ending: &Ending) -> u8 {
    match ending {
        Ending::Clean => 0,
        Ending::Fault(_, fault) if fault.is_loss() => 7,
        Ending::Fault(..) => 6,
        Ending::Stands(_) => 9,
    }
}

fn run(args: &Args) -> Result<Ending> {
    let kinds = chosen(args);
    let seed = args.seed.unwrap_or_else(new_seed);
    eprintln!("{}", again(args, seed));
    let options = PagerOptions { kernel_only: args.kernel_only, ..Default::default() };
    let mut ground = Ground::open(&options)?;
    let road = ground.pager.road().name();
    let mut skipped_means = std::collections::BTreeMap::new();
    let parts = parts(args, &kinds, &mut ground, |kind, Skipped(why)| {
        skipped_means.insert(kind.name, why);
    });
    let posts: Vec<_> = parts.iter().map(|part| Arc::clone(&part.post)).collect();
    let (tally, began) = (Arc::new(Tally::default()), Instant::now());
    let mut crew = Crew::start(parts, seed, &tally);
    let [run, patience] = [args.time, args.patience].map(Duration::from_nanos);
    let ending = crew.watch(Times { run, steps: args.steps, patience });
    let mut report = Report { seed, road, skipped_means, ..Report::default() };
    report.kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    report.ran_ms = began.elapsed().as_millis() as u64;
    for post in posts {
        let name = post.name.split('-').next().unwrap_or_default().to_owned();
        *report.steps.entry(name).or_default() += post.steps();
    }
    report.moves(&tally.so_far());
    report.stood(crew.watchdog.longest());
    report.ended(&ending);
    println!("{}", serde_json::to_string(&report)?);
    Ok(ending)
}

/// Returns the requested means.
fn chosen(args: &Args) -> Vec<&'static Kind> {
    let is_named = |kind: &&Kind| args.means.iter().any(|name| name == kind.name);
    let is_left = |kind: &&Kind| !args.without.iter().any(|name| name == kind.name);
    let all = ALL.iter().filter(|_| args.means.is_empty());
    all.chain(ALL.iter().chain(BROKEN).filter(is_named)).filter(is_left).collect()
}

/// Makes the threads of all means, with their posts.
fn parts(
    args: &Args,
    kinds: &[&'static Kind],
    ground: &mut Ground,
    mut skip: impl FnMut(&'static Kind, Skipped),
) -> Vec<Part> {
    let posts = Arc::new(OnceLock::new());
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let whole_machine = args.whole_machine;
    let shared = Arc::clone(&posts);
    let mut site = Site { ground, dir, whole_machine, movers: args.movers, posts: shared };
    let mut parts = Vec::new();
    for kind in kinds {
        match (kind.make)(&mut site) {
            Err(why) => skip(kind, why),
            Ok(all) => parts.extend((1..).zip(all).map(|(number, means)| {
                let name = format!("{}-{number}", kind.name);
                Part { post: Arc::new(Post::new(name.clone())), name, means }
            })),
        }
    }
    posts.get_or_init(|| parts.iter().map(|part| Arc::clone(&part.post)).collect());
    parts
}

fn new_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ u64::from(std::process::id()) << 32
}

/// Returns the command that repeats the run with the same random numbers.
fn again(args: &Args, seed: u64) -> String {
    let given = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let seed = if args.seed.is_some() { String::new() } else { format!("--seed {seed} ") };
    format!("the same again: nodeward-torture {seed}{given}")
}
