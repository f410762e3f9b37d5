//! The open connections. When there are too many, the oldest is closed: clients that send nothing,
//! or read nothing, keep no other out.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Connections that may be open before the oldest is closed.
const OPEN_MAX: usize = 32;
/// Threads; those of connections that were closed end as soon as they notice.
const THREADS_MAX: usize = 2 * OPEN_MAX;
/// Time for one of them to end. It takes that long only if it asks an agent that does not answer.
const THREAD_WAIT_MAX: Duration = Duration::from_secs(10);

/// The open connections by number, in the order in which they came.
#[derive(Default)]
pub struct Connections {
    table: Mutex<ConnectionTable>,
    thread_ended: Condvar,
}

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
    /// Takes a connection; `None` if it has to be closed. Waits while there are too many threads: a
    /// burst of connections is faster than the threads of those that were closed.
    pub fn admit(self: &Arc<Self>, stream: TcpStream) -> Option<OpenConnection> {
        let known = stream.try_clone().ok()?;
        let mut table = self.lock();
        if table.open.len() >= OPEN_MAX
            && let Some((_, oldest)) = table.open.pop_first()
        {
            // Its thread ends now, because it can neither read nor write any more.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let is_full = |table: &mut ConnectionTable| table.threads >= THREADS_MAX;
        let waited = self.thread_ended.wait_timeout_while(table, THREAD_WAIT_MAX, is_full);
        let (mut table, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        table.last += 1;
        table.threads += 1;
        let number = table.last;
        table.open.insert(number, known);
        Some(OpenConnection { stream, number, all: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
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
        drop(table);
        self.all.thread_ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Goal: a connection that comes while the threads of closed ones have not ended yet is taken
    /// as soon as one has.
    #[test]
    fn a_burst_keeps_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let all = Arc::new(Connections::default());
        let admit = || {
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            all.admit(listener.accept().unwrap().0)
        };
        let mut open: Vec<_> = (0..THREADS_MAX).map(|_| admit().expect("room")).collect();
        let first = open.remove(0);
        thread::scope(|scope| {
            let next = scope.spawn(admit);
            drop(first);
            open.push(next.join().unwrap().expect("room once a thread has ended"));
        });
        assert_eq!(all.lock().open.len(), OPEN_MAX);
    }
}
