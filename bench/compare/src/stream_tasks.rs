//! The tasks of a scenario's workload: processes of `nodeward-stream`, which go through memory as
//! the simulator's `triad` does, or rows of short ones, as its `compile`.

use anyhow::{Result, bail, ensure};
use nodeward_model::Nodemask;
use nodeward_runner::{FOREIGN_PAGE_STRIDE, TaskSpec};
use nodeward_scenario::{
    DutyCycle, InitialHome, MemoryPlacement, Scenario, Workload, WorkloadKind,
};

/// Passes of a short process through its memory.
const SHORT_PASSES: u64 = 4;

/// Returns the tasks of a workload of a scenario.
///
/// # Errors
/// If it asks for what `nodeward-stream` cannot do; the message names the key.
pub fn tasks_of(scenario: &Scenario, workload: &Workload) -> Result<Vec<TaskSpec>> {
    no_others_keys(workload)?;
    let processes = 0..workload.processes as usize;
    match workload.kind {
        WorkloadKind::Compile { lives, .. } => Ok(vec![row(workload, lives); processes.len()]),
        WorkloadKind::Triad { passes, .. } => {
            ensure!(passes > 0, "`passes`: in the lab work must end");
            let line = stream_line(scenario, workload, passes)?;
            Ok(processes.map(|process| stream(scenario, workload, &line, process)).collect())
        }
        _ => bail!("`kind`: in the lab there are triad and compile"),
    }
}

/// Refuses the keys of all kinds that the lab has nothing for.
fn no_others_keys(workload: &Workload) -> Result<()> {
    let Workload { huge, folio_bytes, nodes, home, cpuset, own_memcgs, .. } = workload;
    ensure!(!huge && *folio_bytes == 0, "`pages`: in the lab they are base pages");
    ensure!(nodes.is_none(), "`nodes`: in the lab programs may run anywhere");
    ensure!(cpuset.is_none(), "`cpuset`: in the lab programs have none of their own");
    ensure!(*home == InitialHome::None, "`home`: no program of the lab has one");
    ensure!(!own_memcgs, "`groups`: in the lab all programs are in one");
    Ok(())
}

/// Returns a row of short processes, which cannot be placed by hand.
fn row(workload: &Workload, lives: u32) -> TaskSpec {
    let line = format!("--size {} --passes {SHORT_PASSES}", workload.memory_bytes);
    TaskSpec {
        command: stream_command(&line),
        start_node: None,
        manual_arguments: Vec::new(),
        sequential_processes: lives,
    }
}

/// Returns process `number`. By hand a process that begins on a node stays there, with its memory;
/// the threads of any other stay on all nodes in turn, each with its part.
fn stream(scenario: &Scenario, workload: &Workload, line: &str, number: usize) -> TaskSpec {
    let begins = workload.begins.as_ref();
    let start_node = begins.and_then(|on| on.iter().nth(number % on.len().max(1)));
    let homes = start_node.map_or_else(|| with_cpus(scenario).to_string(), |on| on.to_string());
    let mut command = stream_command(line);
    if workload.one_segment {
        command.extend(["--process".to_owned(), format!("{number}/{}", workload.processes)]);
    }
    TaskSpec {
        command,
        start_node,
        manual_arguments: vec!["--homes".to_owned(), homes],
        sequential_processes: 0,
    }
}

fn stream_line(scenario: &Scenario, workload: &Workload, passes: u64) -> Result<String> {
    let Workload { memory_bytes, threads, .. } = workload;
    let part = part(workload)?;
    let mut line = format!("--size {memory_bytes} --threads {threads} --passes {passes} --wait");
    line += &format!(" --part {part} --nodes {}", memory_nodes(workload)?);
    if workload.pools > 1 {
        let names = (0..workload.pools).map(|pool| format!("{}-{pool}", workload.name));
        line += &format!(" --pools {}", names.collect::<Vec<_>>().join(","));
    }
    if workload.one_segment {
        line += &format!(" --file /dev/shm/{}", workload.name);
    }
    if workload.bound {
        line += &format!(" --stay {}", with_cpus(scenario));
    }
    if threads > &2 {
        line += " --by-frame"; // whose counts can replace those of a machine's own counters
    }
    Ok(line + &turns(workload)?)
}

fn with_cpus(scenario: &Scenario) -> Nodemask {
    let nodes = scenario.machine.nodes.iter().filter(|node| !node.cpus.is_empty());
    nodes.map(|node| node.id).collect()
}

/// Returns the nodes that memory lies on when the work begins.
fn memory_nodes(workload: &Workload) -> Result<&Nodemask> {
    match &workload.placement {
        MemoryPlacement::PopulatedOn(nodes) => Ok(nodes),
        _ => bail!("`place`: in the lab it is such as \"left:0-1\""),
    }
}

/// Returns the part of memory that each thread goes through, as `nodeward-stream` calls it.
fn part(workload: &Workload) -> Result<&'static str> {
    let WorkloadKind::Triad { access, shared, .. } = workload.kind else {
        bail!("`kind`: only a triad has parts");
    };
    let sharers = match workload.one_segment {
        true => workload.tasks() / u64::from(workload.pools),
        false => u64::from(workload.threads),
    };
    let others = sharers.saturating_sub(1);
    let all_milli = others * 1000 / (others + 1);
    let some_milli = others * 1000 / (others + FOREIGN_PAGE_STRIDE as u64);
    ensure!(shared.random_milli == 0, "`shared`: in the lab threads read in order");
    Ok(match (workload.scattered, access.writes_milli, u64::from(shared.in_order_milli)) {
        (true, 1000, shared) if shared.abs_diff(some_milli) <= 1 => "scattered",
        (true, ..) => bail!(
            "`scattered`: in the lab each thread also reads one in {FOREIGN_PAGE_STRIDE} of the \
             others' pages and writes its own: `shared-in-order = {some_milli}`, `writes = 1000`"
        ),
        (false, 1000, 0) => "share",
        (false, 0, 0) => "read-share",
        (false, 0, shared) if shared.abs_diff(all_milli) <= 1 => {
            if workload.one_segment {
                "pool"
            } else {
                "all"
            }
        }
        _ => bail!(
            "`shared-in-order` and `writes`: in the lab threads write all lines of their part \
             (`writes = 1000`), read them (`writes = 0`), or read those of all \
             (`shared-in-order = {all_milli}`)"
        ),
    })
}

/// Returns the options of a process that works in turns.
fn turns(workload: &Workload) -> Result<String> {
    let start_ns = workload.start_ns;
    let Some(DutyCycle { busy_ns, idle_ns }) = workload.duty_cycle else {
        ensure!(start_ns == 0, "`start`: in the lab all begin together, but for turns");
        return Ok(String::new());
    };
    ensure!(busy_ns == idle_ns, "`works` and `rests`: in the lab they are as long");
    let odd = match start_ns {
        0 => "",
        _ if start_ns == busy_ns => " --odd",
        _ => bail!("`start`: in the lab a turn is the first or the second"),
    };
    Ok(format!(" --turn {busy_ns}ns{odd}"))
}

fn stream_command(line: &str) -> Vec<String> {
    let words = line.split_whitespace().map(str::to_owned);
    std::iter::once("nodeward-stream".to_owned()).chain(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(name: &str) -> Vec<(String, Option<u32>, String)> {
        let scenario = Scenario::find(name).unwrap();
        let tasks = scenario.workloads.iter().flat_map(|it| tasks_of(&scenario, it).unwrap());
        let told = |task: TaskSpec| {
            let node = task.start_node.map(|node| node.0);
            (task.command.join(" "), node, task.manual_arguments.join(" "))
        };
        tasks.map(told).collect()
    }

    /// Goal: scenarios become the command lines that do the same.
    #[test]
    fn scenarios_as_command_lines() {
        let mib = |mib: u64| mib << 20;
        let sides = format!(
            "nodeward-stream --size {} --threads 2 --passes 24 --wait --part share --nodes ",
            mib(512)
        );
        assert_eq!(
            commands("lab-sides"),
            [
                (sides.clone() + "0 --turn 2000000000ns", Some(0), "--homes 0".to_owned()),
                (sides + "1 --turn 2000000000ns --odd", Some(1), "--homes 1".to_owned()),
            ]
        );
        let bound = format!(
            "nodeward-stream --size {} --threads 4 --passes 24 --wait --part scattered --nodes \
             0-1 --stay 0-1 --by-frame",
            mib(1024)
        );
        assert_eq!(commands("lab-bound"), [(bound, None, "--homes 0-1".to_owned())]);
        let crowded = commands("lab-crowded");
        let nodes: Vec<_> = crowded.iter().map(|(_, node, _)| node.unwrap()).collect();
        assert_eq!(nodes, [0, 1, 0, 1, 0, 1]);
    }

    /// Goal: keys that the lab has nothing for are refused, each by its name.
    #[test]
    fn keys_that_the_lab_lacks() {
        let lines = [
            ("pages = \"huge\"", "`pages`"),
            ("nodes = \"0\"", "`nodes`"),
            ("cpuset = \"0-1\"", "`cpuset`"),
            ("home = \"spread\"", "`home`"),
            ("groups = \"own\"", "`groups`"),
            ("start = \"1s\"", "`start`"),
            ("works = \"1s\"\nrests = \"2s\"", "`works`"),
            ("shared = 10", "`shared`"),
            ("scattered = true", "`scattered`"),
        ];
        for (line, key) in lines {
            let text = format!(
                "[[node]]\nid = 0\ncpus = 1\nmemory = \"1GiB\"\n\
                 [[node]]\nid = 1\ncpus = 1\nmemory = \"1GiB\"\n\
                 [[workload]]\nname = \"w\"\nkind = \"triad\"\nthreads = 2\nmemory = \"8MiB\"\n\
                 place = \"left:0\"\npopulated = true\nwrites = 1000\npasses = 1\n{line}\n"
            );
            let scenario = Scenario::parse("odd", &text).unwrap();
            let why = tasks_of(&scenario, &scenario.workloads[0]).unwrap_err().to_string();
            assert!(why.contains(key), "{line}: {why}");
        }
    }
}
