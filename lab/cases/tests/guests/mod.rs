//! Groups of cases, each in a guest of its own.

use std::time::Duration;

use nodeward_lab::{GuestFile, GuestKernel, GuestRun, LabMachine, RunOutput, open_for_test};

use crate::programs;

/// A guest for some cases.
#[derive(Clone, Debug)]
pub struct CaseGuest {
    pub kernel: GuestKernel,
    pub scenario: LabMachine,
    /// Additional arguments of the kernel.
    pub append: String,
    /// Environment variables of the cases.
    pub env: Vec<(String, String)>,
    /// Files beside the programs.
    pub files: Vec<GuestFile>,
    pub timeout: Duration,
    /// Whether its CPUs run at the same time, as cases about races want it. Otherwise they take
    /// turns, which takes less of the host.
    pub parallel: bool,
}

impl CaseGuest {
    pub fn new(kernel: &GuestKernel, scenario: LabMachine) -> Self {
        let timeout = Duration::from_secs(300);
        let (append, env, files) = (String::new(), Vec::new(), Vec::new());
        let (kernel, parallel) = (kernel.clone(), false);
        Self { kernel, scenario, append, env, files, timeout, parallel }
    }

    /// Runs cases, prints their output, and fails if one of them did.
    pub fn run(self, names: &[&str]) {
        let Self { kernel, scenario, append, env, files: more, timeout, parallel } = self;
        let Some(lab) = open_for_test(&kernel) else { return };
        let Some(programs) = programs::find(&lab, &kernel) else { return };
        let mut command = vec!["nodeward-cases"];
        command.extend(names);
        let files = [programs.files(), more].concat();
        let run = GuestRun {
            kernel,
            files,
            timeout,
            append,
            env,
            take_turns: !parallel,
            ..GuestRun::new(scenario, command)
        };
        let finished = lab.run(&run).expect("the lab runs");
        let kernel = &run.kernel;
        print!("on {kernel}:\n{}", text(&finished.stdout));
        assert_eq!(finished.code, 0, "on {kernel}: {}", told(&finished));
        for name in names {
            let ended = ["ok", "skipped"].map(|how| format!("{how} {name}:"));
            let is_so = |line: &str| ended.iter().any(|start| line.starts_with(start));
            assert!(text(&finished.stdout).lines().any(is_so), "{name} did not end");
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn told(finished: &RunOutput) -> String {
    format!("timed out: {}\n{}", finished.timed_out, text(&finished.stderr))
}
