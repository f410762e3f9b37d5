//! The balancer of a run: the kernel's switch, or a program.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nodeward_runner::BalancerSpec;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";
/// Directories for files of Debian's daemons; the lab's guest starts without them.
const DAEMON_DIRS: [&str; 3] = ["/var/run", "/var/log", "/var/lib"];
/// Timeout for the end of a program that was told to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Switches the kernel's own balancing off, if it has one.
pub fn disable_numa_balancing() -> Result<()> {
    match PathBuf::from(NUMA_BALANCING).exists() {
        true => set_numa_balancing("0"),
        false => Ok(()),
    }
}

fn set_numa_balancing(value: &str) -> Result<()> {
    fs::write(NUMA_BALANCING, value)
        .with_context(|| format!("cannot write {value} to {NUMA_BALANCING}"))
}

/// The settings file of the system.
const SETTINGS: &str = "/etc/nodeward.toml";

/// Runs the command that prepares for a balancer.
pub fn prepare(balancer: &BalancerSpec) -> Result<()> {
    match balancer.warm_up_command.as_slice() {
        [] => Ok(()),
        line => output_of(line).map(drop),
    }
}

/// A running balancer.
pub struct RunningBalancer {
    balancer: BalancerSpec,
    child: Option<Child>,
    /// The file with its output.
    out: PathBuf,
}

impl RunningBalancer {
    /// Starts it for processes with these ids.
    pub fn start(balancer: &BalancerSpec, pids: &[u32]) -> Result<Self> {
        if balancer.numa_balancing {
            set_numa_balancing("1")?;
        }
        if !balancer.settings.is_empty() {
            fs::create_dir_all("/etc").context("no settings can be written")?;
            fs::write(SETTINGS, &balancer.settings).context("no settings can be written")?;
        }
        let out = std::env::temp_dir().join(format!("balancer-{}.log", std::process::id()));
        let child = match balancer.start_command.as_slice() {
            [] => None,
            line => Some(spawn(&with_pids(line, pids), &out)?),
        };
        Ok(Self { balancer: balancer.clone(), child, out })
    }

    /// Returns whether it runs in the foreground still (false: in the background); an error if it
    /// failed.
    pub fn check(&mut self) -> Result<bool> {
        let Some(child) = &mut self.child else { return Ok(true) };
        let ended = child.try_wait()?;
        let name = &self.balancer.name;
        if ended.is_some_and(|status| !status.success()) {
            bail!("{name} ended too early; it said:\n{}", self.log());
        }
        Ok(ended.is_none())
    }

    /// Ends it. Returns the number of pages that it reports as moved, and its log.
    pub fn stop(mut self) -> Result<(Option<u64>, String)> {
        self.end()?;
        disable_numa_balancing()?;
        let told = match self.balancer.report_command.as_slice() {
            [] => None,
            line => Some(moved_pages(&json_of(line)?)),
        };
        Ok((told, self.log()))
    }

    /// Returns its output, or the log file that it wrote.
    fn log(&self) -> String {
        let named = Some(PathBuf::from(&self.balancer.log_file)).filter(|path| path.is_absolute());
        fs::read_to_string(named.as_ref().unwrap_or(&self.out)).unwrap_or_default()
    }

    /// Ends it. Returns whether the started process was still running; else it is in the
    /// background.
    fn end(&mut self) -> Result<bool> {
        let stays = self.check()?;
        let Some(mut child) = self.child.take() else { return Ok(stays) };
        match self.balancer.stop_command.as_slice() {
            [] if stays => kill_process(Pid::from_child(&child), Signal::TERM)?,
            [] => {}
            line => {
                let status = command(line)?.status().with_context(|| line.join(" "))?;
                ensure!(status.success(), "`{}` ended with {status}", line.join(" "));
            }
        }
        wait_with_timeout(&mut child)
            .with_context(|| format!("{} does not end", self.balancer.name))?;
        Ok(stays)
    }
}

fn spawn(line: &[String], out: &Path) -> Result<Child> {
    for dir in DAEMON_DIRS {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {dir}"))?;
    }
    let out = File::create(out).with_context(|| format!("cannot write {}", out.display()))?;
    let mut command = command(line)?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    command.spawn().with_context(|| format!("cannot start `{}`", line.join(" ")))
}

fn command(line: &[String]) -> Result<Command> {
    let (program, arguments) = line.split_first().context("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

fn with_pids(line: &[String], pids: &[u32]) -> Vec<String> {
    let word = |word: &String| match word.as_str() {
        "{pids}" => pids.iter().map(u32::to_string).collect(),
        _ => vec![word.clone()],
    };
    line.iter().flat_map(word).collect()
}

fn wait_with_timeout(child: &mut Child) -> Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        ensure!(start.elapsed() < EXIT_TIMEOUT, "still there after {EXIT_TIMEOUT:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a command that must succeed, and returns its output.
fn output_of(line: &[String]) -> Result<Vec<u8>> {
    let output = command(line)?.output().with_context(|| line.join(" "))?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}` failed: {told}", line.join(" "));
    Ok(output.stdout)
}

fn json_of(line: &[String]) -> Result<Value> {
    serde_json::from_slice(&output_of(line)?).with_context(|| format!("`{}`", line.join(" ")))
}

/// Returns the sum of all numbers called `moved_pages`.
fn moved_pages(value: &Value) -> u64 {
    match value {
        Value::Array(values) => values.iter().map(moved_pages).sum(),
        Value::Object(fields) => {
            let pages = |(name, value): (&String, &Value)| match name.as_str() {
                "moved_pages" => value.as_u64().unwrap_or(0),
                _ => moved_pages(value),
            };
            fields.iter().map(pages).sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Goal: the reported pages are summed over everything in the report.
    #[test]
    fn moved_pages_are_summed() {
        let told = json!({ "schema": "x", "operations": [
            { "moved_pages": 7, "open_pages": 1 },
            { "moved_pages": 5, "more": { "moved_pages": 1 } },
        ]});
        assert_eq!(moved_pages(&told), 13); // 7 + 5 + 1
        assert_eq!(moved_pages(&json!({"moved": 3})), 0);
    }

    /// Goal: the tasks' process ids are inserted at the placeholder, one argument each.
    #[test]
    fn pids_become_arguments() {
        let line = ["move", "{pids}", "0"].map(str::to_owned);
        assert_eq!(with_pids(&line, &[4, 5]), ["move", "4", "5", "0"]);
    }

    fn running(line: &str) -> RunningBalancer {
        let child = Command::new("sh").args(["-c", line]).spawn().unwrap();
        let balancer = BalancerSpec { name: "it".to_owned(), ..BalancerSpec::default() };
        RunningBalancer { balancer, child: Some(child), out: "/nonexistent".into() }
    }

    /// Goal: a program that still runs is ended, one that went to the background is no error, and
    /// one that failed is reported.
    #[test]
    fn every_way_to_end() {
        let stop = |mut it: RunningBalancer| it.end().map_err(|why| why.to_string());
        assert_eq!(stop(running("exec sleep 600")), Ok(true));
        let gone = |line: &str| {
            let mut it = running(line);
            it.child.as_mut().unwrap().wait().unwrap();
            it
        };
        assert_eq!(stop(gone("true")), Ok(false));
        assert!(stop(gone("exit 3")).unwrap_err().starts_with("it ended too early"));
    }
}
