//! The costs of the machine that this host emulates, in place of those in a scenario: they follow
//! the host and what else it does.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nodeward_lab::Lab;
use nodeward_runner::MachineCosts;
use nodeward_scenario::{Scenario, WorkloadKind};

use crate::median_range::MedianRange;
use crate::programs::GuestPrograms;
use crate::settings::CompareSettings;
use crate::workloads::LabWorkload;

const TIMEOUT: Duration = Duration::from_secs(300);

type CostOf = fn(&MachineCosts) -> f64;

/// Measures the costs on the machine of a workload.
///
/// # Errors
/// If the guest cannot: it needs nodes 0 and 1, with a CPU each.
pub fn measure_costs(
    lab: &Lab,
    programs: &GuestPrograms,
    settings: &CompareSettings,
    workload: &LabWorkload,
) -> Result<MachineCosts> {
    let command = ["nodeward-bench", "costs"].map(str::to_owned);
    let run = settings.guest_run(workload, programs.of_costs()?, TIMEOUT, command)?;
    let output = lab.run(&run)?;
    ensure!(output.code == 0, "{}", String::from_utf8_lossy(&output.stderr).trim());
    serde_json::from_slice(&output.stdout).context("nodeward-bench costs printed something else")
}

/// Returns a scenario with these costs. A page costs a third each to unmap, to copy and to map.
/// What a written line costs more than one that is read is computation of the programs that write.
pub fn with_costs(scenario: &Scenario, costs: &MachineCosts) -> Scenario {
    let mut priced = scenario.clone();
    let (machine, ns) = (&mut priced.machine, |ns: f64| (ns.round() as u64).max(1));
    machine.links.iter_mut().for_each(|link| link.latency_ns = Some(ns(costs.read_line_far_ns)));
    let params = &mut machine.params;
    let third_ns = costs.move_page_ns / 3.0;
    params.latency_ns = ns(costs.read_line_near_ns);
    (params.fault_ns, params.hint_fault_ns) = (ns(costs.fault_ns), ns(costs.hint_fault_ns));
    params.unmap_page_ns = ns(costs.scan_page_ns);
    (params.unmap_ns, params.map_ns) = (ns(third_ns - costs.scan_page_ns), ns(third_ns));
    params.copy_bytes_per_s = ns(params.page_bytes as f64 * 1e9 / third_ns.max(1.0));
    params.move_call_ns = ns(costs.move_call_ns);
    params.look_process_ns = ns(costs.look_process_ns);
    params.look_thread_ns = ns(costs.look_thread_ns);
    let written_ps = (written_line_ns(costs) * 1000.0) as u64;
    for workload in &mut priced.workloads {
        if let WorkloadKind::Triad { access, .. } = &mut workload.kind {
            access.compute_ps = written_ps * u64::from(access.writes_milli) / 1000;
        }
    }
    priced
}

/// Returns what a written line costs more than one that is read, near or far.
pub fn written_line_ns(costs: &MachineCosts) -> f64 {
    let near_ns = costs.written_line_near_ns - costs.read_line_near_ns;
    let far_ns = costs.written_line_far_ns - costs.read_line_far_ns;
    f64::midpoint(near_ns, far_ns).max(0.0)
}

/// Returns each cost by name, with its median and range over all measurements.
pub fn summary(all: &[MachineCosts]) -> Vec<(&'static str, MedianRange)> {
    let costs: [(&str, CostOf); 10] = [
        ("a line near", |it| it.read_line_near_ns),
        ("a line far", |it| it.read_line_far_ns),
        ("what a written line takes more", written_line_ns),
        ("a fault", |it| it.fault_ns),
        ("a hint fault", |it| it.hint_fault_ns),
        ("a page marked for one", |it| it.scan_page_ns),
        ("a call that moves", |it| it.move_call_ns),
        ("a page that it moves", |it| it.move_page_ns),
        ("a look at a process", |it| it.look_process_ns),
        ("a look at a thread", |it| it.look_thread_ns),
    ];
    let range = |(name, cost): (_, CostOf)| Some((name, MedianRange::of(all.iter().map(cost))?));
    costs.into_iter().filter_map(range).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Costs of which the first is given. Written lines take 10 ns more near, if that is 30, and 20
    /// far.
    pub fn sample(read_line_near_ns: f64) -> MachineCosts {
        MachineCosts {
            read_line_near_ns,
            read_line_far_ns: 120.0,
            written_line_near_ns: 40.0,
            written_line_far_ns: 140.0,
            fault_ns: 7_000.0,
            hint_fault_ns: 3_000.0,
            scan_page_ns: 400.0,
            move_call_ns: 400_000.0,
            move_page_ns: 9_000.0,
            look_process_ns: 50_000.0,
            look_thread_ns: 15_000.0,
        }
    }

    /// Goal: measured costs take the place of a scenario's. Written lines take 10 ns more near and
    /// 20 far, 15 on average; who only reads computes nothing. A page of 9 us is copied in 3.
    #[test]
    fn costs_are_those_of_the_host() {
        let costs = sample(30.0);
        for (name, compute_ps) in [("crossed", 15_000), ("parts-read", 0)] {
            let priced = with_costs(&LabWorkload::find(name).unwrap().scenario, &costs);
            let machine = &priced.machine;
            assert_eq!([machine.latency_ns(0, 0), machine.latency_ns(0, 1)], [30, 120]);
            assert_eq!((machine.params.hint_fault_ns, machine.params.unmap_ns), (3_000, 2_600));
            assert_eq!(machine.params.copy_bytes_per_s, 1_365_333_333); // 4096 bytes in 3 us
            let WorkloadKind::Triad { access, .. } = priced.workloads[0].kind else { panic!() };
            assert_eq!(access.compute_ps, compute_ps);
        }
    }
}
