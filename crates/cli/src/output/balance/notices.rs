//! Notices that the balancer gives once: other balancers, nodes that come and go, missing
//! permissions.

use std::path::Path;

use nodeward_balancer::{Notice, RivalMode};
use nodeward_model::{Escape as _, OtherBalancer, Pid};

/// Maximum number of pids named in a line; the others are counted.
const PIDS_SHOWN: usize = 5;
/// What tells which thread uses which page.
pub const ACCESS_SOURCES: &str = "run as root, or set kernel.perf_event_paranoid=0, or give \
                                  samples of perf through a pipe (--samples)";

/// Formats a line for each notice. Processes with the same remedy share a line.
pub fn lines(news: &[Notice], mode: RivalMode) -> Vec<String> {
    let mut lines = Vec::new();
    for one in news {
        match one {
            Notice::Denied { pids, need } => lines.push(not_permitted(need, pids)),
            Notice::RivalCame { rival } => lines.push(appeared_text(rival, mode)),
            Notice::RivalLeft { rival } => {
                lines.push(format!("{} no longer balances", balancer_name(rival)));
            }
            Notice::NodeCame { node } => lines.push(format!("node {node} came online")),
            Notice::NodeLeft { node } => {
                lines.push(format!("node {node} went offline; its processes get other homes"));
            }
            Notice::Ledger { error } | Notice::State { error } => lines.push(error.clone()),
            Notice::NoAccessSource { pids, obstacle } => {
                lines.push(no_access_source(pids, obstacle));
            }
            Notice::StartsUnseen { remedy } => lines.push(format!(
                "threads that members of groups start do not join them, as it is not known who \
                 starts which thread; {remedy}"
            )),
            Notice::StartsLost { records } => lines.push(format!(
                "{records} records of threads that started or ended were lost, so threads that \
                 members of groups started may be missing there; nodeward group add GROUP PID \
                 --thread TID adds them"
            )),
            Notice::Failed { pid, error } => lines.push(format!("process {pid}: {error}")),
            Notice::SchedulerEnded { reason } => lines.push(format!(
                "the scheduler that ran threads at home has ended ({}); threads are nudged from \
                 now on",
                reason.escaped()
            )),
            Notice::SchedulerFull { threads } => lines.push(format!(
                "{threads} threads found no room in the scheduler, which treats them as threads \
                 without a home"
            )),
            Notice::LookingSlowed { factor } => lines.push(format!(
                "looking costs more than it may, so the time between rounds is {factor} times as \
                 long"
            )),
        }
    }
    lines
}

fn not_permitted(need: &str, pids: &[Pid]) -> String {
    format!("{} may not be balanced by us: {need}", processes(pids))
}

fn no_access_source(pids: &[Pid], obstacle: &str) -> String {
    let (is, its) = if pids.len() == 1 { ("is", "its") } else { ("are", "their") };
    format!(
        "{} {is} spread over several nodes, and no source tells which thread uses which of {its} \
         pages, so these stay where they are; {obstacle} (nodeward doctor lists all sources)",
        processes(pids)
    )
}

fn processes(pids: &[Pid]) -> String {
    let mut names: Vec<String> = pids.iter().take(PIDS_SHOWN).map(ToString::to_string).collect();
    if let Some(more) = pids.len().checked_sub(PIDS_SHOWN).filter(|&more| more > 0) {
        names.push(format!("{more} more"));
    }
    let plural = if pids.len() == 1 { "" } else { "es" };
    format!("process{plural} {}", names.join(", "))
}

/// Returns the name of another balancer.
pub fn balancer_name(rival: &OtherBalancer) -> String {
    match rival {
        OtherBalancer::Kernel { mode } => format!("the kernel (kernel.numa_balancing={mode})"),
        OtherBalancer::Numad { pid } => format!("numad (process {pid})"),
        OtherBalancer::Damon { path } => format!("DAMON ({})", path.escaped()),
    }
}

/// Returns the directory of the kernel thread that works on a scheme.
fn kdamond_dir(scheme: &Path) -> &Path {
    let is_thread = |folder: &&Path| folder.parent().is_some_and(|up| up.ends_with("kdamonds"));
    scheme.ancestors().find(is_thread).unwrap_or(scheme)
}

fn appeared_text(rival: &OtherBalancer, mode: RivalMode) -> String {
    let is_kernel = matches!(rival, OtherBalancer::Kernel { .. });
    let we = match mode {
        RivalMode::Ignore => "both move pages now, against each other",
        RivalMode::Cooperate if is_kernel => {
            "nodeward leaves alone what it moves, and what it decided stands"
        }
        RivalMode::TakeOver if is_kernel => {
            "it is on though nodeward was to take it over, so nodeward stands back and does \
             nothing until it ends"
        }
        RivalMode::StandBack if is_kernel => {
            "until it ends, nodeward stands back: it does nothing, and tells now and then what it \
             would do (--rivals cooperate does what the kernel leaves, --rivals take-over switches \
             it off for as long as nodeward runs)"
        }
        _ => {
            "until it ends, nodeward stands back: it does nothing, and tells now and then what it \
             would do"
        }
    };
    format!("{} balances, too: {we}; to end it: {}", balancer_name(rival), stop_command(rival))
}

fn stop_command(rival: &OtherBalancer) -> String {
    match rival {
        OtherBalancer::Kernel { .. } => "sysctl kernel.numa_balancing=0".to_owned(),
        OtherBalancer::Numad { .. } => "systemctl stop numad".to_owned(),
        OtherBalancer::Damon { path } => {
            format!("echo off > {}/state", kdamond_dir(path).escaped())
        }
    }
}

/// Explains why no decision is carried out, and how to change that.
pub fn standing_back(rivals: &[OtherBalancer]) -> String {
    let list = |each: fn(&OtherBalancer) -> String, and: &str| {
        rivals.iter().map(each).collect::<Vec<_>>().join(and)
    };
    let is_kernel = |rival: &OtherBalancer| matches!(rival, OtherBalancer::Kernel { .. });
    let or = match rivals.iter().all(is_kernel) {
        true => ", or --rivals cooperate, or --rivals take-over",
        false => "",
    };
    format!(
        "nodeward balance stands back (rival), as others balance: {}; to change that: {}{or}",
        list(balancer_name, ", "),
        list(stop_command, " and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: other balancers are named with what ends them, and with our behaviour meanwhile.
    #[test]
    fn rivals_are_named() {
        let came = [
            OtherBalancer::Kernel { mode: 1 },
            OtherBalancer::Numad { pid: Pid::new(7).unwrap() },
            OtherBalancer::Damon {
                path: "/sys/kernel/mm/damon/admin/kdamonds/1/contexts/0/schemes/2".into(),
            },
        ]
        .map(|rival| Notice::RivalCame { rival });
        let mut told = lines(&came, RivalMode::StandBack);
        for mode in [RivalMode::Cooperate, RivalMode::TakeOver, RivalMode::Ignore] {
            told.extend(lines(&came[..2], mode));
        }
        let kernel = OtherBalancer::Kernel { mode: 1 };
        told.extend(lines(&[Notice::RivalLeft { rival: kernel.clone() }], RivalMode::StandBack));
        told.push(standing_back(std::slice::from_ref(&kernel)));
        told.push(standing_back(&[kernel, OtherBalancer::Numad { pid: Pid::new(7).unwrap() }]));
        insta::assert_snapshot!(told.join("\n"));
    }

    /// Goal: a hundred processes that we may not sample are one line per remedy.
    #[test]
    fn what_is_not_permitted_is_said_in_short() {
        let denied = |pids: std::ops::Range<u32>, need: &str| Notice::Denied {
            pids: pids.map(|pid| Pid::new(pid).unwrap()).collect(),
            need: need.to_owned(),
        };
        let all = [denied(1..101, "run as root"), denied(200..201, "run on the host")];
        assert_eq!(
            lines(&all, RivalMode::StandBack),
            [
                "processes 1, 2, 3, 4, 5, 95 more may not be balanced by us: run as root",
                "process 200 may not be balanced by us: run on the host"
            ]
        );
    }

    /// Goal: what nothing is known of is named once, with what would tell.
    #[test]
    fn processes_without_a_source_are_told_what_gives_one() {
        let told = |pids: std::ops::Range<u32>| {
            let pids = pids.map(|pid| Pid::new(pid).unwrap()).collect();
            let obstacle = "registers: it is not permitted: run as root".to_owned();
            lines(&[Notice::NoAccessSource { pids, obstacle }], RivalMode::StandBack).concat()
        };
        insta::assert_snapshot!([told(7..8), told(1..10)].join("\n"));
    }
}
