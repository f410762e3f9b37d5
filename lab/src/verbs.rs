//! What the lab's verbs do.

use std::io;

use anyhow::{Context, Result};
use nodeward_lab::scenario::SMALL;
use nodeward_lab::{Kernel, Lab, Run, Scenario, Sinks};

use crate::args::{self, Args, Verb};

/// What a run that was cut off ends with.
const TIMED_OUT: u8 = 124;

/// Does what was asked; the exit code.
pub fn perform(args: Args) -> Result<u8> {
    match args.verb {
        Verb::Run(run) => return self::run(run),
        Verb::Scenarios => scenarios()?,
        Verb::Kernels => kernels()?,
        Verb::Fetch { kernels } => fetch(&kernels)?,
        Verb::Check => check()?,
        Verb::Clean { all } => Lab::open()?.clean(all)?,
    }
    Ok(0)
}

fn run(args: args::Run) -> Result<u8> {
    let command = match <[String; 1]>::try_from(args.command) {
        Ok([line]) => vec!["sh".to_owned(), "-c".to_owned(), line],
        Err(argv) => argv,
    };
    let run = Run {
        scenario: Scenario::find(&args.scenario)?,
        kernel: args.kernel,
        files: args.files,
        command,
        env: args.env,
        timeout: args.timeout,
        append: args.append,
        cold: args.cold,
    };
    let sinks = Sinks { stdout: &mut io::stdout(), stderr: &mut io::stderr() };
    match Lab::open()?.stream(&run, sinks)? {
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

/// Runs the smallest command, which needs all that any other does.
fn check() -> Result<()> {
    let lab = Lab::open()?;
    println!("hypervisor  {}", lab.hypervisor());
    println!("cache       {}", lab.cache().root().display());
    let finished = lab.run(&Run::new(Scenario::find("two-nodes")?, ["uname", "-r"]))?;
    print!("guest runs  {}", String::from_utf8_lossy(&finished.stdout));
    Ok(())
}
