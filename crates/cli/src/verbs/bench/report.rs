//! `nodeward bench report`: benchmarks one after the other, and one file with all results.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use clap::{Parser as _, ValueEnum as _};
use nodeward_linux::Linux;
use nodeward_linux::procfs::cpuinfo::processor;
use nodeward_machine::Machine as _;
use nodeward_model::Escape as _;
use serde_json::{Value, json};

use super::{calls, limits, pager, pool};
use crate::args::{BenchReportArgs, Benchmark, BenchmarkLine, ReportedBenchmark};
use crate::message::exit::Exit;
use crate::output::{self, check_result, print, write_result};
use crate::settings::state_dir::now_unix_ms;
use crate::verbs::doctor;

/// Runs them, and writes the file when all have ended. One that cannot run here is in it with its
/// exit code; nothing is written if Ctrl-C ends one, or memory was damaged.
pub fn run(args: &BenchReportArgs) -> Result<Exit> {
    let is_printed = args.file.as_os_str() == "-";
    if !is_printed {
        check_result(&args.file)?;
    }
    let machine = machine()?;
    let (every, mut results) = (ReportedBenchmark::value_variants(), BTreeMap::new());
    for benchmark in every.iter().copied().filter(|one| args.only.contains(one)) {
        say!("nodeward: bench {}", benchmark.name());
        let began = Instant::now();
        let (result, exit) = measure(benchmark, args.smoke)?;
        if matches!(exit, Exit::Interrupted | Exit::DataLost) {
            return Ok(exit);
        }
        let seconds = began.elapsed().as_secs_f64();
        let done = json!({ "code": exit.code(), "seconds": seconds, "result": result });
        results.insert(benchmark.name(), done);
    }
    let report = json!({
        "schema": "nodeward.bench-report/1",
        "version": env!("CARGO_PKG_VERSION"),
        "time_unix_ms": now_unix_ms(),
        "is_brief": args.smoke,
        "machine": machine,
        "benchmarks": results,
    });
    let text = format!("{report:#}\n");
    let written = match is_printed {
        true => print(&text),
        false => write_result(&args.file, &text),
    };
    written.map(|()| Exit::Done)
}

/// Measures as the command does that has no other options.
fn measure(benchmark: ReportedBenchmark, is_brief: bool) -> Result<(Option<Value>, Exit)> {
    let brief = if is_brief { benchmark.brief() } else { &[] };
    let words = ["bench", benchmark.name()].into_iter().chain(brief.iter().copied());
    match BenchmarkLine::try_parse_from(words)?.benchmark {
        Benchmark::Limits(args) => limits::document(&args),
        Benchmark::Calls(args) => calls::document(&args),
        Benchmark::Pager(args) => pager::document(&args),
        Benchmark::Pool(args) => pool::document(&args),
        Benchmark::Report(_) | Benchmark::Balance(_) | Benchmark::Agent(_) => {
            unreachable!("no report has it")
        }
    }
}

/// What this machine is, and what nodeward can use of it.
fn machine() -> Result<Value> {
    let machine = Linux::open();
    Ok(json!({
        "kernel": rustix::system::uname().release().to_bytes().escaped().to_string(),
        "architecture": std::env::consts::ARCH,
        "processor": processor(Path::new("/")).map(|name| name.to_string()),
        "usable_cpus": machine.usable_cpus()?.len(),
        "page_bytes": machine.page_bytes(),
        "topology": machine.topology()?,
        "doctor": serde_json::from_str::<Value>(&output::doctor::json(&doctor::findings())?)?,
    }))
}
