//! What `nodeward balance` costs while there is nothing to do: beside processes that sleep.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::args::SleepersOptions;
use crate::cpu_share::cpu_share;
use crate::snapshot_cost::CrowdProcess;

/// The first rounds look at everything for the first time.
const WARM_UP: Duration = Duration::from_secs(5);

/// Measures its share of a CPU, with no settings of a user.
pub fn measure(options: &SleepersOptions) -> Result<Value> {
    let _crowd = CrowdProcess::sleeping(options.processes)?;
    let state = tempfile::tempdir()?;
    let mut command = Command::new(&options.program);
    command.arg("balance").env("NODEWARD_STATE_DIR", state.path());
    command.env_remove("NODEWARD_CONFIG").env("XDG_CONFIG_HOME", state.path());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut balancer = MeasuredBalancer(command.spawn().context("cannot start nodeward balance")?);
    thread::sleep(WARM_UP);
    let share = cpu_share(balancer.0.id(), Duration::from_nanos(options.time))?;
    ensure!(balancer.0.try_wait()?.is_none(), "nodeward balance has ended");
    Ok(share)
}

/// A balancer, which is told to end.
struct MeasuredBalancer(Child);

impl Drop for MeasuredBalancer {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing left to do.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}
