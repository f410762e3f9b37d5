//! What systemd is told about us, where it asks: `sd_notify(3)`, a datagram with words.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Whoever started us and wants to know how we are; nobody, if it does not say where.
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<UnixDatagram>,
    watchdog: Option<Watchdog>,
}

/// Wants a sign of life.
#[derive(Debug)]
struct Watchdog {
    every: Duration,
    last: Option<Instant>,
}

impl Notify {
    /// Finds out by our environment whether somebody wants to know.
    pub fn find() -> Self {
        Self::find_with(|name| std::env::var_os(name))
    }

    fn find_with(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let Some(name) = variable("NOTIFY_SOCKET") else { return Self::default() };
        let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let usec = number("WATCHDOG_USEC").filter(|&usec| is_ours && usec > 0);
        // Twice within the time, as its documentation advises.
        let every = |usec| Duration::from_micros(usec) / 2;
        Self {
            socket: connected(name.as_bytes()).ok(),
            watchdog: usec.map(|usec| Watchdog { every: every(usec), last: None }),
        }
    }

    /// The start, or a reload, is over.
    pub fn ready(&self) {
        self.send("READY=1\n");
    }

    /// The settings are read again, until [`Notify::ready`].
    pub fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={usec}\n"));
    }

    /// We end.
    pub fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    /// What we are at, in a line.
    pub fn status(&self, words: &str) {
        self.send(&format!("STATUS={}\n", words.replace('\n', " ")));
    }

    /// A sign of life, if it is time for one.
    pub fn alive(&mut self) {
        let Some(watchdog) = &mut self.watchdog else { return };
        let now = Instant::now();
        if watchdog.last.is_none_or(|last| now.duration_since(last) >= watchdog.every) {
            watchdog.last = Some(now);
            self.send("WATCHDOG=1\n");
        }
    }

    /// A message that does not arrive changes nothing for us.
    fn send(&self, words: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(words.as_bytes());
        }
    }
}

/// A path, or a name behind `@` that no file has.
fn connected(name: &[u8]) -> io::Result<UnixDatagram> {
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
    };
    let socket = UnixDatagram::unbound()?;
    // Who does not read must not hold us up.
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

    fn notify(name: &str, watchdog: &[(&str, String)]) -> Notify {
        Notify::find_with(|asked| match asked {
            "NOTIFY_SOCKET" => Some(name.into()),
            _ => watchdog.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into()),
        })
    }

    /// Goal: the words are those of sd_notify(3), at a path and at a name without one.
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
            notify.alive(); // Nobody asked for it.
            notify.stopping();
            assert_eq!(heard(&socket), "READY=1\n");
            assert_eq!(heard(&socket), "STATUS=two lines\n");
            assert!(heard(&socket).starts_with("RELOADING=1\nMONOTONIC_USEC="));
            assert_eq!(heard(&socket), "STOPPING=1\n");
        }
    }

    /// Goal: signs of life are sent if they are wanted from us, and not more often than that.
    #[test]
    fn the_watchdog_is_fed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let at = path.to_str().unwrap();
        let hour = ("WATCHDOG_USEC", (3_600_000_000_u64).to_string());
        let ours = ("WATCHDOG_PID", std::process::id().to_string());
        let mut fed = notify(at, &[hour.clone(), ours]);
        fed.alive();
        fed.alive();
        fed.ready();
        assert_eq!(heard(&socket), "WATCHDOG=1\n");
        assert_eq!(heard(&socket), "READY=1\n");
        let mut others = notify(at, &[hour, ("WATCHDOG_PID", "1".to_owned())]);
        others.alive();
        others.ready();
        assert_eq!(heard(&socket), "READY=1\n");
    }

    /// Goal: without a socket, or with one that nobody holds, nothing happens.
    #[test]
    fn nobody_wants_to_know() {
        for notify in [Notify::find_with(|_| None), notify("/nonexistent/socket", &[])] {
            notify.ready();
            assert!(notify.socket.is_none());
        }
    }
}
