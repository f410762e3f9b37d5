//! Carries out the lab's verbs.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nodeward_lab::scenario::SMALL;
use nodeward_lab::{Count, Ended, Kernel, Lab, Run, Scenario, Sinks, shell};
use nodeward_lab_counts::Reader;

use crate::args::{self, Args, Verb};
use crate::tables;

/// Exit code of a run that timed out.
const TIMED_OUT: u8 = 124;

/// Carries out the verb. Returns the exit code.
pub fn perform(args: Args) -> Result<u8> {
    match args.verb {
        Verb::Run(run) => return self::run(*run),
        Verb::Shell(shell) => return self::shell(*shell),
        Verb::Scenarios => scenarios()?,
        Verb::Kernels => kernels()?,
        Verb::Fetch { kernels } => fetch(&kernels)?,
        Verb::Check => check()?,
        Verb::Counts { file, json, frames } => counts(&file, json, frames)?,
        Verb::Clean { all } => Lab::open()?.clean(all)?,
    }
    Ok(0)
}

fn run(args: args::Run) -> Result<u8> {
    let command = match <[String; 1]>::try_from(args.command) {
        Ok([line]) => vec!["sh".to_owned(), "-c".to_owned(), line],
        Err(argv) => argv,
    };
    let run = Run { timeout: args.timeout, ..in_guest(args.guest, command)? };
    let sinks = Sinks { stdout: &mut io::stdout(), stderr: &mut io::stderr() };
    let ended = Lab::open()?.stream(&run, sinks)?;
    exit_code(&ended, &run)
}

/// Runs a shell, without a time limit.
fn shell(args: args::Shell) -> Result<u8> {
    let mut run = in_guest(args.guest, vec!["sh".to_owned()])?;
    run.timeout = Duration::MAX;
    let lab = Lab::open()?;
    if shell::on_terminal() {
        let (kernel, machine) = (lab.prepare(&run.kernel)?, &run.scenario.name);
        eprintln!("nodeward-lab: a shell on {machine}, Linux {kernel}: {}", shell::HOW_TO_LEAVE);
        let term = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
        run.env.insert(0, ("TERM".to_owned(), term));
    }
    exit_code(&lab.shell(&run)?, &run)
}

fn in_guest(guest: args::Guest, command: Vec<String>) -> Result<Run> {
    Ok(Run {
        kernel: guest.kernel,
        files: guest.files,
        env: guest.env,
        append: guest.append,
        cold: guest.cold,
        populate: guest.populate,
        count: guest.count.map(|count| Count { file: guest.counts, ..count }),
        ..Run::new(Scenario::find(&guest.scenario)?, command)
    })
}

fn exit_code(ended: &Ended, run: &Run) -> Result<u8> {
    if let Some(counts) = &ended.counts {
        eprint!("{}", tables::of_slots(counts));
    }
    match ended.code {
        Some(code) => u8::try_from(code).context("the guest's exit code is beyond 255"),
        None => {
            eprintln!("nodeward-lab: ended after {:?}: see --timeout", run.timeout);
            Ok(TIMED_OUT)
        }
    }
}

fn scenarios() -> Result<()> {
    for name in SMALL {
        println!("{name:16} {}", Scenario::find(name)?.about);
    }
    Ok(())
}

fn kernels() -> Result<()> {
    let lab = Lab::open()?;
    for kernel in Kernel::DEBIAN {
        let release = lab.present(&kernel)?;
        println!("{:8} {}", kernel.to_string(), release.as_deref().unwrap_or("not fetched"));
    }
    Ok(())
}

fn fetch(kernels: &[Kernel]) -> Result<()> {
    let lab = Lab::open()?;
    let kernels = if kernels.is_empty() { &Kernel::DEBIAN } else { kernels };
    for kernel in kernels {
        println!("{:8} {}", kernel.to_string(), lab.refresh(kernel)?);
    }
    Ok(())
}

fn counts(file: &Path, json: bool, frames: bool) -> Result<()> {
    let reader = Reader::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    match (frames, json) {
        (false, false) => print!("{}", tables::of_slots(&reader.now()?)),
        (false, true) => println!("{}", serde_json::to_string(&reader.now()?)?),
        (true, false) => print!("{}", tables::of_frames(&reader.frames()?)),
        (true, true) => println!("{}", serde_json::to_string(&reader.frames()?)?),
    }
    Ok(())
}

/// Runs the smallest command, which needs everything that any other needs.
fn check() -> Result<()> {
    let lab = Lab::open()?;
    println!("hypervisor  {}", lab.hypervisor());
    println!("cache       {}", lab.cache().root().display());
    let finished = lab.run(&Run::new(Scenario::find("two-nodes")?, ["uname", "-r"]))?;
    print!("guest runs  {}", String::from_utf8_lossy(&finished.stdout));
    Ok(())
}
