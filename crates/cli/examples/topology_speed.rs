//! Times reading and showing a machine of 8 nodes and 1024 CPUs, which shall take less than 50 ms.
//! Prints one line of JSON: the middle, the best and the worst of the runs in milliseconds.
//!
//! `topology_speed [LINE [RUNS]]`, where LINE describes another machine.

use std::error::Error;
use std::time::Instant;

use nodeward_cli::output::topology::{Charset, text};
use nodeward_linux::sysfs;
use nodeward_model::Synthetic;

const MACHINE: &str = "8n 64c 2t 256GiB dist:10/21 L1d:32KiB L1i:32KiB L2:1MiB L3:32MiB/8c split";
const RUNS: usize = 21;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let line = args.next().unwrap_or_else(|| MACHINE.to_owned());
    let runs = args.next().map_or(Ok(RUNS), |runs| runs.parse())?.max(1);
    let machine = line.parse::<Synthetic>()?.topology();
    let root = tempfile::tempdir()?;
    sysfs::unpack(&sysfs::as_capture(&machine), root.path())?;

    let mut times_ms = Vec::new();
    let mut shown_bytes = 0;
    for _ in 0..runs {
        let start = Instant::now();
        let read = sysfs::read_topology(root.path())?;
        shown_bytes = text(&read, Charset::Unicode).len();
        times_ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times_ms.sort_by(f64::total_cmp);
    let (best, worst) = (times_ms[0], times_ms[runs - 1]);
    println!(
        r#"{{"ms": {:.2}, "ms_min": {best:.2}, "ms_max": {worst:.2}, "runs": {runs}, "cpus": {}, "shown_bytes": {shown_bytes}}}"#,
        times_ms[runs / 2],
        machine.cpus.len(),
    );
    Ok(())
}
