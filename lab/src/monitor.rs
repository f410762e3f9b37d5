//! The hypervisor's monitor: one command, one answer; events in between are skipped.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Timeout of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Polling interval of a migration.
const POLL: Duration = Duration::from_millis(3);

/// A connection to the monitor of one machine.
#[derive(Debug)]
pub struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    /// Opens a fresh connection and reads its greeting.
    pub fn new(stream: UnixStream) -> Result<Self> {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut monitor = Self { stream: BufReader::new(stream) };
        monitor.read().context("no greeting from the hypervisor's monitor")?;
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Executes a command and returns its result.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        writeln!(self.stream.get_mut(), "{request}")?;
        loop {
            let mut answer = self.read().with_context(|| format!("no answer to {command}"))?;
            if let Some(error) = answer.get("error") {
                bail!("{command}: {}", error["desc"].as_str().unwrap_or("refused"));
            }
            if let Some(value) = answer.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    fn read(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            bail!("the hypervisor ended");
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Stops the machine and writes its state to a stream, without its memory, which is in shared
    /// files.
    pub fn save(&mut self, uri: &str) -> Result<()> {
        self.execute("stop", &json!({}))?;
        self.exclude_shared_memory()?;
        self.execute("migrate", &json!({ "uri": uri }))?;
        self.await_migration()
    }

    /// Reads the state that [`Monitor::save`] wrote, and resumes the machine.
    pub fn restore(&mut self, uri: &str) -> Result<()> {
        self.exclude_shared_memory()?;
        self.execute("migrate-incoming", &json!({ "uri": uri }))?;
        self.await_migration()?;
        self.execute("cont", &json!({})).map(drop)
    }

    fn exclude_shared_memory(&mut self) -> Result<()> {
        let capability = json!({ "capability": "x-ignore-shared", "state": true });
        self.execute("migrate-set-capabilities", &json!({ "capabilities": [capability] })).map(drop)
    }

    fn await_migration(&mut self) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < ANSWER_TIMEOUT {
            let answer = self.execute("query-migrate", &json!({}))?;
            match answer["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => bail!("the hypervisor's migration failed"),
                _ => std::thread::sleep(POLL),
            }
        }
        bail!("the hypervisor's migration takes longer than {ANSWER_TIMEOUT:?}")
    }
}
