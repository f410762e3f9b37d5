//! `nodeward-cases CASE...`: runs cases inside a guest of the lab, one after another, as root.
//!
//! For each case it prints a line on standard output: `ok NAME: time`, `skipped NAME: why` or
//! `FAILED NAME`; details of failures are on standard error. Exit codes: 0 none failed, 1 some did,
//! 2 a name is unknown.

#![forbid(unsafe_code)]

mod balancer;
mod case_outcome;
mod cases;
mod confined;
mod disk;
mod guest;
mod load;
mod nodeward;
mod numa_maps;
mod postgres;

use std::panic;
use std::process::ExitCode;
use std::time::Instant;

use case_outcome::{CaseFn, CaseSkipped};

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let mut failed = false;
    for name in &names {
        let Some(body) = cases::find(name) else {
            eprintln!("nodeward-cases: no case is called '{name}'");
            return ExitCode::from(2);
        };
        failed |= !run(name, body);
    }
    ExitCode::from(u8::from(failed))
}

fn run(name: &str, body: CaseFn) -> bool {
    let start = Instant::now();
    let ran = panic::catch_unwind(body);
    match &ran {
        Ok(Ok(())) => println!("ok {name}: {:.1} s", start.elapsed().as_secs_f64()),
        Ok(Err(CaseSkipped(why))) => println!("skipped {name}: {why}"),
        Err(_) => println!("FAILED {name}"),
    }
    ran.is_ok()
}
