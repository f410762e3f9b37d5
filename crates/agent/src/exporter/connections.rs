//! The open connections. When there are too many, the oldest is closed: clients that send nothing,
//! or read nothing, keep no other out.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that may be open before the oldest is closed.
const OPEN_MAX: usize = 32;
/// Threads; those of connections that were closed end as soon as they notice.
const THREADS_MAX: usize = 2 * OPEN_MAX;

/// The open connections by number, in the order in which they came.
#[derive(Default)]
pub struct Connections(Mutex<ConnectionTable>);

#[derive(Default)]
struct ConnectionTable {
    last: u64,
    open: BTreeMap<u64, TcpStream>,
    threads: usize,
}

/// A connection that is open until this is dropped.
pub struct OpenConnection {
    stream: TcpStream,
    number: u64,
    all: Arc<Connections>,
}

impl Connections {
    /// Takes a connection; `None` if it has to be closed.
    pub fn admit(self: &Arc<Self>, stream: TcpStream) -> Option<OpenConnection> {
        let known = stream.try_clone().ok()?;
        let mut table = self.lock();
        if table.threads >= THREADS_MAX {
            return None;
        }
        if table.open.len() >= OPEN_MAX
            && let Some((_, oldest)) = table.open.pop_first()
        {
            // Its thread ends now, because it can neither read nor write any more.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        table.last += 1;
        table.threads += 1;
        let number = table.last;
        table.open.insert(number, known);
        Some(OpenConnection { stream, number, all: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnection {
    /// Returns its stream.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut table = self.all.lock();
        table.open.remove(&self.number);
        table.threads -= 1;
    }
}
