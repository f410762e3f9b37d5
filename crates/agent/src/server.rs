//! One thread that serves all connections. It waits for none of them: what takes long is done in
//! lanes, and what a client does not read stays in a buffer until its timeout is over.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use nodeward_linux::peer;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use serde_json::json;
use varlink::Reply;

use crate::caller::{AgentIdentity, Caller};
use crate::connection::MessageBuffer;
use crate::errors::CallError;
use crate::lane::RequestLane;
use crate::limits::{
    CLIENT_TIMEOUT, CONNECTIONS_FOR_ROOT, CONNECTIONS_MAX, CONNECTIONS_OF_USER_MAX, LOOKERS,
    PROGRESS_INTERVAL, WAITING_OF_USER_MAX,
};
use crate::moves::OrderedMove;
use crate::reply::encode;
use crate::request::ClientRequest;
use crate::service::{Answer, Place, Service};

/// Bytes that one read takes at most.
const READ_BYTES: usize = 16 << 10;
/// Connections taken, and events handled, between two waits.
const EVENTS_MAX: usize = 64;
/// Requests of one connection that are served before others have their turn.
const REQUESTS_IN_A_ROW: usize = 8;
/// Time between two looks for connections whose time is over.
const TICK: Duration = Duration::from_secs(1);
/// Numbers that epoll gives with events of the listener and of the waker; connections follow.
const LISTENER: u64 = 0;
const WAKER: u64 = 1;

/// Wakes the thread of the server.
pub struct Waker {
    descriptor: OwnedFd,
    is_over: AtomicBool,
}

impl Waker {
    /// Ends the server.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // If its counter is full, the thread is awake already.
        let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
    }
}

/// The server, which takes connections and serves their requests.
pub struct Server {
    listener: UnixListener,
    /// False while no descriptor is left for a further connection.
    listens: bool,
    epoll: OwnedFd,
    waker: Arc<Waker>,
    service: Arc<Service>,
    identity: AgentIdentity,
    orders: RequestLane,
    looks: RequestLane,
    /// Lanes send their answers here, each with the number of its connection.
    done: Sender<(u64, Answer)>,
    answers: Receiver<(u64, Answer)>,
    connections: BTreeMap<u64, Connection>,
    /// Connections with a request that has been read and waits for its turn.
    ready: BTreeSet<u64>,
    last: u64,
    next_tick: Instant,
    /// Where reads go, so that none clears memory first.
    room: Vec<u8>,
}

/// A connection with the state of its request.
struct Connection {
    stream: UnixStream,
    caller: Arc<Caller>,
    input: MessageBuffer,
    output: Vec<u8>,
    state: State,
    /// The time at which the incomplete request, or the unread reply, began.
    since: Instant,
    /// The events for which the epoll instance waits.
    interest: EventFlags,
}

/// The event for which a connection waits.
enum State {
    /// The next request, or the rest of it.
    Receiving,
    /// A lane; whether the client wants the reply.
    Waiting { oneway: bool },
    /// The progress of a move.
    Watching(Arc<OrderedMove>),
    /// The client reads the last reply.
    Closing,
}

impl Server {
    /// Prepares the server.
    ///
    /// # Errors
    /// If descriptors or threads cannot be had.
    pub fn new(
        listener: UnixListener,
        service: Arc<Service>,
        identity: AgentIdentity,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (done, answers) = channel();
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, &descriptor, EventData::new_u64(WAKER), EventFlags::IN)?;
        Ok(Self {
            listener,
            listens: true,
            epoll,
            waker: Arc::new(Waker { descriptor, is_over: AtomicBool::new(false) }),
            service,
            identity,
            orders: RequestLane::start("nodeward-order", 1)?,
            looks: RequestLane::start("nodeward-look", LOOKERS)?,
            done,
            answers,
            connections: BTreeMap::new(),
            ready: BTreeSet::new(),
            last: WAKER,
            next_tick: Instant::now(),
            room: vec![0; READ_BYTES],
        })
    }

    /// Returns what wakes it.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Serves until the waker ends it.
    pub fn run(mut self) {
        while !self.waker.is_over.load(Ordering::Acquire) {
            self.wait();
            self.take_answers();
            for number in std::mem::take(&mut self.ready) {
                self.handle_events(number, EventFlags::empty());
            }
            if Instant::now() >= self.next_tick {
                self.next_tick = Instant::now() + self.tick();
            }
        }
    }

    /// Waits for events, and handles each event.
    fn wait(&mut self) {
        let left = self.next_tick.saturating_duration_since(Instant::now());
        let left = if self.ready.is_empty() { left } else { Duration::ZERO };
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(1),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut room = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut room, Some(&timeout)) {
            Ok((events, _)) => &*events,
            Err(_) => return, // a signal
        };
        for event in events {
            // The event is packed, so its fields are copied.
            let (number, flags) = (event.data.u64(), event.flags);
            match number {
                LISTENER => self.accept(),
                WAKER => self.waker.clear(),
                _ => self.handle_events(number, flags),
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..EVENTS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::debug!(%error, "no connection can be taken");
                    // Without a free descriptor the listener would wake us for ever.
                    let _ = epoll::delete(&self.epoll, &self.listener);
                    self.listens = false;
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream) {
        match self.connect(&stream) {
            Ok(caller) => {
                self.last += 1;
                let (number, flags) = (self.last, EventFlags::IN);
                let data = EventData::new_u64(number);
                if epoll::add(&self.epoll, &stream, data, flags).is_ok() {
                    self.connections.insert(number, Connection::new(stream, caller));
                }
            }
            // It is told why; if it does not read that, it is closed all the same.
            Err(error) => {
                let _ = (&stream).write(&encode(&error.reply()));
            }
        }
    }

    fn connect(&self, stream: &UnixStream) -> Result<Arc<Caller>, CallError> {
        let too_many = |message: String| CallError::TooMany { message };
        let all = self.connections.len();
        let user = peer::user_of(stream).unwrap_or(u32::MAX);
        let of_user =
            || self.connections.values().filter(|other| other.caller.user() == user).count();
        let all_max = CONNECTIONS_MAX - if user == 0 { 0 } else { CONNECTIONS_FOR_ROOT };
        if all >= all_max {
            return Err(too_many(format!("the agent has {all} connections; try again later")));
        }
        if user != 0 && of_user() >= CONNECTIONS_OF_USER_MAX {
            let words = format!("you have {CONNECTIONS_OF_USER_MAX} connections; close one");
            return Err(too_many(words));
        }
        stream.set_nonblocking(true).map_err(|error| too_many(error.to_string()))?;
        let caller = Caller::of(stream, &self.identity);
        caller.map(Arc::new).map_err(|reason| CallError::NotAllowed {
            pid: 0,
            reason,
            message: format!("you cannot be served: {}", reason.advice()),
        })
    }

    /// Reads, serves and writes as far as that goes without waiting.
    fn handle_events(&mut self, number: u64, flags: EventFlags) {
        let Some(mut connection) = self.connections.remove(&number) else { return };
        let is_dead =
            flags.intersects(EventFlags::HUP | EventFlags::ERR) && !flags.contains(EventFlags::IN);
        let goes_on = !is_dead
            && connection.flush().is_ok()
            && self.serve_next(number, &mut connection, flags.contains(EventFlags::IN));
        if goes_on && self.watch_for(number, &mut connection) {
            self.connections.insert(number, connection);
        }
    }

    /// Serves what has come; returns false when the connection is over.
    fn serve_next(&mut self, number: u64, connection: &mut Connection, may_read: bool) -> bool {
        let mut may_read = may_read;
        for _ in 0..REQUESTS_IN_A_ROW {
            if !connection.is_receiving() {
                return connection.is_open();
            }
            match connection.next_request() {
                Ok(Some(request)) => self.begin(number, connection, request),
                Ok(None) if may_read => {
                    may_read = false;
                    if !connection.read(&mut self.room) {
                        return false;
                    }
                }
                Ok(None) => return true,
                Err(error) => connection.refuse(&error),
            }
            if connection.flush().is_err() {
                return false;
            }
        }
        self.ready.insert(number);
        true
    }

    fn begin(&mut self, number: u64, connection: &mut Connection, request: ClientRequest) {
        let lane = match Service::place(&request) {
            Place::AtOnce => {
                let answer = self.service.serve(&connection.caller, &request);
                if let Answer::Watch(_) = answer {
                    self.next_tick = Instant::now();
                }
                return connection.answer(answer, request.oneway);
            }
            Place::Orders => &self.orders,
            Place::Looks => &self.looks,
        };
        let (user, oneway) = (connection.caller.user(), request.oneway);
        let is_waiting = |it: &&Connection| {
            it.caller.user() == user && matches!(it.state, State::Waiting { .. })
        };
        let waiting = self.connections.values().filter(is_waiting).count();
        let (service, waker) = (Arc::clone(&self.service), Arc::clone(&self.waker));
        let (caller, done) = (Arc::clone(&connection.caller), self.done.clone());
        let task = move || {
            // If nobody listens any more, the answer is for nobody.
            let _ = done.send((number, service.serve(&caller, &request)));
            waker.wake();
        };
        connection.state = State::Waiting { oneway };
        if waiting >= WAITING_OF_USER_MAX || !lane.give(Box::new(task)) {
            let busy = CallError::busy("too many requests wait; try again later");
            connection.answer(Answer::Reply(encode(&busy.reply())), oneway);
        }
    }

    fn take_answers(&mut self) {
        while let Ok((number, answer)) = self.answers.try_recv() {
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            if let State::Waiting { oneway } = connection.state {
                connection.answer(answer, oneway);
                self.ready.insert(number);
            }
        }
    }

    /// Sets what is waited for; returns false if that fails.
    fn watch_for(&self, number: u64, connection: &mut Connection) -> bool {
        let mut wanted = EventFlags::empty();
        if connection.is_receiving() {
            wanted |= EventFlags::IN;
        }
        if !connection.output.is_empty() {
            wanted |= EventFlags::OUT;
        }
        if wanted == connection.interest {
            return true;
        }
        connection.interest = wanted;
        let data = EventData::new_u64(number);
        epoll::modify(&self.epoll, &connection.stream, data, wanted).is_ok()
    }

    /// Tells of progress, and closes connections whose time is over. Returns the time until the
    /// next tick.
    fn tick(&mut self) -> Duration {
        if !self.listens {
            let data = EventData::new_u64(LISTENER);
            self.listens = epoll::add(&self.epoll, &self.listener, data, EventFlags::IN).is_ok();
        }
        let watching = |connection: &Connection| matches!(connection.state, State::Watching(_));
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        for number in numbers {
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            if connection.is_late() {
                connection.end_late();
                self.connections.remove(&number);
            } else if watching(connection) && connection.tell_progress() {
                self.ready.insert(number);
            }
        }
        if self.connections.values().any(watching) { PROGRESS_INTERVAL } else { TICK }
    }
}

impl Connection {
    fn new(stream: UnixStream, caller: Arc<Caller>) -> Self {
        Self {
            stream,
            caller,
            input: MessageBuffer::default(),
            output: Vec::new(),
            state: State::Receiving,
            since: Instant::now(),
            interest: EventFlags::IN,
        }
    }

    /// Returns whether the next request may be taken, as the last reply was read.
    fn is_receiving(&self) -> bool {
        matches!(self.state, State::Receiving) && self.output.is_empty()
    }

    fn is_open(&self) -> bool {
        !matches!(self.state, State::Closing) || !self.output.is_empty()
    }

    fn is_late(&self) -> bool {
        let waits = !self.output.is_empty() || self.is_receiving() && self.input.is_partial();
        waits && self.since.elapsed() >= CLIENT_TIMEOUT
    }

    /// Reads once, as far as there is room; returns false at the end of the connection.
    fn read(&mut self, room: &mut [u8]) -> bool {
        let was_partial = self.input.is_partial();
        match (&self.stream).read(room) {
            Ok(0) => return false,
            Ok(read) => self.input.push(&room[..read]),
            Err(error) => {
                return [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind());
            }
        }
        if !was_partial {
            self.since = Instant::now();
        }
        true
    }

    fn next_request(&mut self) -> Result<Option<ClientRequest>, CallError> {
        self.input.take()?.map(ClientRequest::parse).transpose()
    }

    fn answer(&mut self, answer: Answer, oneway: bool) {
        self.state = match answer {
            Answer::Reply(reply) => {
                if !oneway {
                    self.send(reply);
                }
                State::Receiving
            }
            Answer::Watch(record) => State::Watching(record),
        };
    }

    fn refuse(&mut self, error: &CallError) {
        self.send(encode(&error.reply()));
        self.state = State::Closing;
    }

    fn send(&mut self, reply: Vec<u8>) {
        if self.output.is_empty() {
            self.since = Instant::now();
            self.output = reply;
        } else {
            self.output.extend(reply);
        }
    }

    /// Tells how far a move is; what was not read yet is not added to. Returns false if so.
    fn tell_progress(&mut self) -> bool {
        let State::Watching(record) = &self.state else { return false };
        let progress = record.progress();
        // The last report must not be lost.
        if !self.output.is_empty() {
            return false;
        }
        let mut reply = Reply::parameters(Some(json!({ "progress": progress })));
        reply.continues = Some(progress.running);
        self.send(encode(&reply));
        if !progress.running {
            self.state = State::Receiving;
        }
        true
    }

    fn end_late(&mut self) {
        if self.output.is_empty() {
            let seconds = CLIENT_TIMEOUT.as_secs();
            let message = format!("the rest of a message did not come within {seconds} s");
            self.refuse(&CallError::BadMessage { message });
            let _ = self.flush();
        }
    }

    /// Writes what the client takes now.
    fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match rustix::net::send(&self.stream, &self.output, rustix::net::SendFlags::NOSIGNAL) {
                Ok(written) => drop(self.output.drain(..written)),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
