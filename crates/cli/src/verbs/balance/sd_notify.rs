//! Notifies systemd, if requested: `sd_notify(3)`, datagrams with assignments.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The service manager that wants notifications, if any.
#[derive(Debug, Default)]
pub struct SystemdNotifier {
    socket: Option<UnixDatagram>,
    watchdog: Option<WatchdogTimer>,
}

/// A watchdog that wants keep-alive messages.
#[derive(Debug)]
struct WatchdogTimer {
    interval: Duration,
    last_ping: Option<Instant>,
}

impl SystemdNotifier {
    /// Finds the socket and the watchdog in our environment.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let Some(name) = variable("NOTIFY_SOCKET") else { return Self::default() };
        let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let usec = number("WATCHDOG_USEC").filter(|&usec| is_ours && usec > 0);
        // Twice within the time, as its documentation advises.
        let every = |usec| Duration::from_micros(usec) / 2;
        Self {
            socket: connected(name.as_bytes()).ok(),
            watchdog: usec.map(|usec| WatchdogTimer { interval: every(usec), last_ping: None }),
        }
    }

    /// Reports the end of the start, or of a reload.
    pub fn ready(&self) {
        self.send("READY=1\n");
    }

    /// Reports that the settings are being read again, until [`SystemdNotifier::ready`].
    pub fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={usec}\n"));
    }

    /// Reports the beginning of the end.
    pub fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    /// Reports the status, in a line.
    pub fn status(&self, words: &str) {
        self.send(&format!("STATUS={}\n", words.replace('\n', " ")));
    }

    /// Sends a keep-alive message if one is due.
    pub fn ping_watchdog(&mut self) {
        let Some(watchdog) = &mut self.watchdog else { return };
        let now = Instant::now();
        if watchdog.last_ping.is_none_or(|last| now.duration_since(last) >= watchdog.interval) {
            watchdog.last_ping = Some(now);
            self.send("WATCHDOG=1\n");
        }
    }

    /// Sends a message. A lost message changes nothing for us.
    fn send(&self, words: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(words.as_bytes());
        }
    }
}

/// Connects to a path, or to an abstract name after `@`.
fn connected(name: &[u8]) -> io::Result<UnixDatagram> {
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
    };
    let socket = UnixDatagram::unbound()?;
    // A receiver that does not read must not block us.
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 200];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    fn notify(name: &str, watchdog: &[(&str, String)]) -> SystemdNotifier {
        SystemdNotifier::from_variables(|asked| match asked {
            "NOTIFY_SOCKET" => Some(name.into()),
            _ => watchdog.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into()),
        })
    }

    /// Goal: messages are those of sd_notify(3), at a path and at an abstract name.
    #[test]
    fn words_arrive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("nodeward-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        for (socket, at) in
            [(by_path, path.to_str().unwrap().to_owned()), (by_name, format!("@{name}"))]
        {
            let mut notify = notify(&at, &[]);
            notify.ready();
            notify.status("two\nlines");
            notify.reloading();
            notify.ping_watchdog(); // not requested
            notify.stopping();
            assert_eq!(heard(&socket), "READY=1\n");
            assert_eq!(heard(&socket), "STATUS=two lines\n");
            assert!(heard(&socket).starts_with("RELOADING=1\nMONOTONIC_USEC="));
            assert_eq!(heard(&socket), "STOPPING=1\n");
        }
    }

    /// Goal: keep-alive messages are sent if requested, and at the requested interval.
    #[test]
    fn the_watchdog_is_fed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let at = path.to_str().unwrap();
        let hour = ("WATCHDOG_USEC", (3_600_000_000_u64).to_string());
        let ours = ("WATCHDOG_PID", std::process::id().to_string());
        let mut fed = notify(at, &[hour.clone(), ours]);
        fed.ping_watchdog();
        fed.ping_watchdog();
        fed.ready();
        assert_eq!(heard(&socket), "WATCHDOG=1\n");
        assert_eq!(heard(&socket), "READY=1\n");
        let mut others = notify(at, &[hour, ("WATCHDOG_PID", "1".to_owned())]);
        others.ping_watchdog();
        others.ready();
        assert_eq!(heard(&socket), "READY=1\n");
    }

    /// Goal: without a socket, or with one that no process holds, nothing happens.
    #[test]
    fn nobody_wants_to_know() {
        for notify in
            [SystemdNotifier::from_variables(|_| None), notify("/nonexistent/socket", &[])]
        {
            notify.ready();
            assert!(notify.socket.is_none());
        }
    }
}
