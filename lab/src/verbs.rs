//! Carries out the lab's verbs.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nodeward_lab::scenario::SMALL;
use nodeward_lab::{CountOptions, GuestKernel, GuestRun, Lab, LabMachine, RunExit, Sinks, shell};
use nodeward_lab_counts::CountsReader;

use crate::args::{self, Args, LabVerb};
use crate::tables;

/// Exit code of a run that timed out.
const TIMED_OUT: u8 = 124;

/// Carries out the verb. Returns the exit code.
pub fn run_verb(args: Args) -> Result<u8> {
    match args.verb {
        LabVerb::Run(run) => return self::run(*run),
        LabVerb::Shell(shell) => return self::shell(*shell),
        LabVerb::Scenarios => scenarios()?,
        LabVerb::Kernels => kernels()?,
        LabVerb::Fetch { kernels } => fetch(&kernels)?,
        LabVerb::Check => check()?,
        LabVerb::Counts { file, json, frames } => counts(&file, json, frames)?,
        LabVerb::Clean { all } => Lab::open()?.clean(all)?,
    }
    Ok(0)
}

fn run(args: args::RunVerb) -> Result<u8> {
    let command = match <[String; 1]>::try_from(args.command) {
        Ok([line]) => vec!["sh".to_owned(), "-c".to_owned(), line],
        Err(argv) => argv,
    };
    let run = GuestRun { timeout: args.timeout, ..guest_run(args.guest, command)? };
    let sinks = Sinks { stdout: &mut io::stdout(), stderr: &mut io::stderr() };
    let ended = Lab::open()?.stream(&run, sinks)?;
    exit_code(&ended, &run)
}

/// Runs a shell, without a time limit.
fn shell(args: args::ShellVerb) -> Result<u8> {
    let mut run = guest_run(args.guest, vec!["sh".to_owned()])?;
    run.timeout = Duration::MAX;
    let lab = Lab::open()?;
    if shell::on_terminal() {
        let (kernel, machine) = (lab.prepare(&run.kernel)?, &run.scenario.name);
        eprintln!("nodeward-lab: a shell on {machine}, Linux {kernel}: {}", shell::ESCAPE_HELP);
        let term = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
        run.env.insert(0, ("TERM".to_owned(), term));
    }
    exit_code(&lab.shell(&run)?, &run)
}

fn guest_run(guest: args::GuestArgs, command: Vec<String>) -> Result<GuestRun> {
    Ok(GuestRun {
        kernel: guest.kernel,
        files: guest.files,
        env: guest.env,
        append: guest.append,
        cold: guest.cold,
        populate: guest.populate,
        take_turns: guest.take_turns,
        count: guest.count.map(|count| CountOptions { file: guest.counts, ..count }),
        ..GuestRun::new(LabMachine::find(&guest.scenario)?, command)
    })
}

fn exit_code(ended: &RunExit, run: &GuestRun) -> Result<u8> {
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
        println!("{name:16} {}", LabMachine::find(name)?.about);
    }
    Ok(())
}

fn kernels() -> Result<()> {
    let lab = Lab::open()?;
    for kernel in GuestKernel::DEBIAN {
        let release = lab.fetched_release(&kernel)?;
        println!("{:8} {}", kernel.to_string(), release.as_deref().unwrap_or("not fetched"));
    }
    Ok(())
}

fn fetch(kernels: &[GuestKernel]) -> Result<()> {
    let lab = Lab::open()?;
    let kernels = if kernels.is_empty() { &GuestKernel::DEBIAN } else { kernels };
    for kernel in kernels {
        println!("{:8} {}", kernel.to_string(), lab.fetch_latest(kernel)?);
    }
    Ok(())
}

fn counts(file: &Path, json: bool, frames: bool) -> Result<()> {
    let reader =
        CountsReader::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    match (frames, json) {
        (false, false) => print!("{}", tables::of_slots(&reader.snapshot()?)),
        (false, true) => println!("{}", serde_json::to_string(&reader.snapshot()?)?),
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
    let finished = lab.run(&GuestRun::new(LabMachine::find("two-nodes")?, ["uname", "-r"]))?;
    print!("guest runs  {}", String::from_utf8_lossy(&finished.stdout));
    Ok(())
}
