//! The exporter: hands out the agent's metrics over HTTP. A process of its own, because the
//! balancer has privileges and no network.
//!
//! ```text
//! mod         the listener; a thread for each connection
//! connections which connections are open; the oldest makes room
//! source      asks the agent, at most once a second
//! http        one request and its answer; pure
//! ```
//!
//! The parser of requests is a crate. The server around it is ours: small servers (tiny_http) bound
//! neither the number of clients nor their time.

mod connections;
mod http;
mod source;

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use connections::Connections;
use http::{REQUEST_BYTES_MAX, answer};
use source::MetricsSource;

/// Time for a request to come, and for its answer to be read.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a connection could not be taken, for example for want of a descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// Why there can be no exporter.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// Another program listens there.
    #[error("another program listens at {0}, perhaps another exporter; choose another --listen")]
    InUse(SocketAddr),
    /// The port needs a privilege.
    #[error("listening at {0} is not permitted; choose a port of 1024 or more")]
    NotPermitted(SocketAddr),
    /// This machine does not have the address, or listening failed otherwise.
    #[error("cannot listen at {address}; choose an address of this machine (ip address)")]
    Failed {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
}

/// An exporter that listens.
pub struct Exporter {
    listener: TcpListener,
    address: SocketAddr,
    source: Arc<MetricsSource>,
}

impl Exporter {
    /// Listens at an address; metrics will be those of the agent at a socket.
    ///
    /// # Errors
    /// If it cannot listen there. An agent that does not answer is no error: metrics say so.
    pub fn bind(address: SocketAddr, agent: &Path) -> Result<Self, ExporterError> {
        let failed = |source: io::Error| match source.kind() {
            ErrorKind::AddrInUse => ExporterError::InUse(address),
            ErrorKind::PermissionDenied => ExporterError::NotPermitted(address),
            _ => ExporterError::Failed { address, source },
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, source: Arc::new(MetricsSource::new(agent)) })
    }

    /// Returns the address, with the port that was given if 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves for ever. `tell` is given a line when the agent no longer answers, and when it does
    /// again.
    pub fn serve(self, tell: fn(&str)) -> ! {
        let connections = Arc::new(Connections::default());
        loop {
            let Ok((stream, _)) = self.listener.accept() else {
                thread::sleep(PAUSE);
                continue;
            };
            let Some(open) = connections.admit(stream) else { continue };
            let source = Arc::clone(&self.source);
            let work = move || {
                // A client that goes away, or is too slow, misses its answer.
                let _ = serve_one(open.stream(), &source, tell);
            };
            // Without a thread the connection is closed.
            let _ = thread::Builder::new().name("nodeward-export".to_owned()).spawn(work);
        }
    }
}

/// Reads a request and answers it.
fn serve_one(stream: &TcpStream, source: &MetricsSource, tell: fn(&str)) -> io::Result<()> {
    let until = Instant::now() + TIMEOUT;
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    let response = loop {
        if let Some(response) = answer(&request, || source.metrics(tell)) {
            break response;
        }
        stream.set_read_timeout(Some(left(until)?))?;
        let room = piece.len().min(REQUEST_BYTES_MAX - request.len());
        match (&mut &*stream).read(&mut piece[..room])? {
            0 => return Ok(()),
            read => request.extend_from_slice(&piece[..read]),
        }
    };
    write_until(stream, &response.bytes(), Instant::now() + TIMEOUT)
}

/// Writes all of it, however slowly it is read, but no longer than until then.
fn write_until(mut stream: &TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(bytes)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

/// Returns the time that is left, which is not 0.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}
