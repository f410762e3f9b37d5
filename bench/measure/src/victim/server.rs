//! A server whose memory is moved.

use std::env;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::protocol::ServerKind;

/// Longer than any server takes to start.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A running server, which ends when this is dropped.
pub struct VictimServer {
    child: Child,
    folder: TempDir,
}

impl VictimServer {
    /// Starts a server whose memory is preferably on node 0.
    pub fn start(kind: ServerKind, bytes: u64) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let program = folder.path().join(kind.name());
        symlink(find(kind.program())?, &program)?;
        let mut command = Command::new("numactl");
        command.arg("--preferred=0").arg(program);
        kind.options(&mut command, &folder.path().join("socket"), bytes);
        command.stdin(Stdio::null()).stdout(Stdio::null()).current_dir(folder.path());
        let child = command.spawn().context("numactl")?;
        let mut server = Self { child, folder };
        server.wait()?;
        Ok(server)
    }

    /// Returns the process id: numactl becomes the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn wait(&mut self) -> Result<()> {
        let began = Instant::now();
        while !self.socket().exists() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at once: {status}");
            }
            if began.elapsed() > STARTS_WITHIN {
                bail!("the server does not listen");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Returns the path of a program.
fn find(program: &str) -> Result<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut paths = env::split_paths(&folders).map(|folder| folder.join(program));
    paths.find(|path| path.exists()).with_context(|| format!("{program} is not installed"))
}

impl Drop for VictimServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
