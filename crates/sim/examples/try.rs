use nodeward_engine::Live;
use nodeward_engine::balance::{BalanceSettings, Balancer};
use nodeward_machine::Machine;
use nodeward_sim::SimMachine;
use std::sync::Arc;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let name = &args[1];
    let secs: u64 = args[2].parse().unwrap();
    let sets: Vec<(String, String)> = args[3..].iter().filter(|a| !a.starts_with('-')).map(|a| a.split_once('=').unwrap()).map(|(a, b)| (a.into(), b.into())).collect();
    let has = |f: &str| args.iter().any(|a| a == f);
    let mut settings = BalanceSettings::default();
    for a in &args[3..] {
        match a.as_str() { "-threads" => settings.rules.move_memory = false, "-pin" => settings.pin = true, "-dry" => settings.act = false, "-fast" => settings.interval_ns = 250_000_000, _ => {} }
    }
    let text = std::fs::read_to_string(format!("scenarios/{name}.toml")).unwrap();
    let scenario = nodeward_scenario::Scenario::with(name, &text, &sets).unwrap();
    let machine = Arc::new(SimMachine::new(&scenario, 1));
    machine.run_until(if has("-late") { 5_000_000_000 } else { 1_000_000_000 });
    let m: Arc<dyn Machine> = machine.clone();
    let mut b = Balancer::new(m, &Default::default(), settings, None).unwrap();
    let mut last = [0u64; 3];
    let (mut moved, mut nudged) = (0, 0);
    let mut next_print = 0;
    while machine.now_ns() < secs * 1_000_000_000 {
        let mut next = machine.now_ns() + 1_000_000_000;
        let mut line = String::new();
        if !has("-off") {
            let r = b.round(&Live::default()).unwrap();
            moved += r.moved_pages; nudged += r.nudged;
            line = format!("nudged {:>3} moved {:>7} looked {} later {} settled {} int {} cost {:?} news {:?}", r.nudged, r.moved_pages, r.looked, r.look_later, r.settled, r.interval_ns / 1000000, r.cost, r.news);
            if has("-v") { for row in &r.processes { println!("     {} {} {:?} {} {} t {:?} m {:?} thr {:?} pages {:?} {:?} done {:?}", row.pid, row.name, row.home, format!("{:?}", row.verdict), row.reason, row.threads_reason, row.memory_reason, row.threads, row.pages, row.numbers, row.done); } }
            next = r.at_ns + r.interval_ns;
        }
        if machine.now_ns() >= next_print {
            next_print += 1_000_000_000;
            let c = machine.with_world(|w| [w.counters.local_lines, w.counters.remote_lines, w.counters.task_node_moves]);
            let d = [c[0] - last[0], c[1] - last[1], c[2] - last[2]];
            last = c;
            if !has("-q") { println!("{:>6.2}s local {:>5.1} lines {:>6.1}M tnm {:>4} {line}", machine.now_ns() as f64 / 1e9, 100.0 * d[0] as f64 / (d[0] + d[1]).max(1) as f64, (d[0] + d[1]) as f64 / 1e6, d[2]); }
        }
        machine.run_until(next.max(machine.now_ns() + 1));
    }
    let report = machine.with_world(|w| w.report());
    let c = machine.with_world(|w| [w.counters.local_lines, w.counters.remote_lines]);
    let works: Vec<_> = report.workloads.iter().map(|w| format!("{} {}", w.name, w.done_per_s)).collect();
    println!("TOTAL {name} {:?} local {:.1} lines {:.1}M moved {moved} nudged {nudged} work {works:?} cost {:?}", &args[3..], 100.0 * c[0] as f64 / (c[0] + c[1]) as f64, (c[0] + c[1]) as f64 / 1e6, b.total_cost());
}
