//! The loop of the screen: it waits for keys, news and signals, and draws. It never waits for a
//! machine or an agent.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGWINCH};
use signal_hook::{flag, low_level};

use super::canvas::Canvas;
use super::inbox::{Inbox, InboxReader};
use super::messages::MessageCatcher;
use super::move_thread::MoveThread;
use super::observer::Interest;
use super::reader::ReaderHandle;
use super::terminal::{self, TerminalGuard};
use crate::message::exit::Exit;
use crate::stop_signals::{Grace, StopSignals, register};
use crate::top::{KeyParser, Look, Model, ScreenEvent, ScreenRequest, draw, seen, update};

/// Bytes of a key come together, unless the machine is very busy.
const KEY_TIME: Duration = Duration::from_millis(50);
/// Time between two looks at a move under way.
const MOVE_TIME: Duration = Duration::from_millis(200);
/// Time between two looks at the clock, and at the size of the terminal.
const IDLE_TIME: Duration = Duration::from_secs(1);
/// A move that is stopped ends between two batches; one that does not end in this time is left, as
/// by a kill: its ledger tells how to undo it.
const LEAVE_TIME: Duration = Duration::from_secs(30);

/// The screen, with what it hears from and whom it asks.
pub struct Screen {
    model: Model,
    reader: ReaderHandle,
    mover: MoveThread,
    inbox: InboxReader,
    keys: KeyParser,
    interest: Interest,
    /// Figures that are older than this are told to be old.
    late_after: Duration,
    fresh_at: Instant,
    messages: Option<MessageCatcher>,
    signals: Signals,
}

/// Signals that came.
struct Signals {
    stop: StopSignals,
    hangup: Arc<AtomicBool>,
}

/// What ended a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    Keys,
    Clock,
    Others,
}

/// Why the screen ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Asked,
    Stopped,
}

impl Signals {
    /// Catches those that end the screen, and that which tells of a new size.
    fn catch(inbox: &Inbox) -> Result<Self> {
        let (hangup, waker) = (Arc::<AtomicBool>::default(), inbox.clone());
        let stop = StopSignals::catch(Grace::Account, move || waker.wake())?;
        register(|| flag::register(SIGHUP, Arc::clone(&hangup))).context("cannot catch SIGHUP")?;
        for signal in [SIGHUP, SIGWINCH] {
            low_level::pipe::register(signal, inbox.waker()?).context("cannot catch signals")?;
        }
        Ok(Self { stop, hangup })
    }

    fn came(&self) -> bool {
        self.stop.is_stopped() || self.hangup.load(Ordering::Relaxed)
    }
}

impl Screen {
    /// Creates a screen.
    ///
    /// # Errors
    /// If signals cannot be caught.
    pub fn new(
        model: Model,
        reader: ReaderHandle,
        mover: MoveThread,
        (inbox, inbox_reader): (&Inbox, InboxReader),
        interval: Duration,
    ) -> Result<Self> {
        Ok(Self {
            model,
            reader,
            mover,
            inbox: inbox_reader,
            keys: KeyParser::default(),
            interest: Interest::default(),
            late_after: interval * 2 + IDLE_TIME,
            fresh_at: Instant::now(),
            messages: None,
            signals: Signals::catch(inbox)?,
        })
    }

    /// Shows it until it ends.
    ///
    /// # Errors
    /// If the machine cannot be read, or the terminal cannot be written.
    pub fn run(mut self) -> Result<Exit> {
        let guard = TerminalGuard::enter()?;
        self.messages = MessageCatcher::start()?;
        let ended = self.show();
        drop(guard);
        self.reader.end();
        let left = self.mover.end(LEAVE_TIME);
        drop(self.messages.take());
        left.into_iter().for_each(|words| say!("nodeward: {words}"));
        match ended? {
            End::Asked => Ok(Exit::Done),
            End::Stopped => Ok(Exit::Interrupted),
        }
    }

    fn show(&mut self) -> Result<End> {
        let mut canvas = self.resized(Canvas::new(terminal::area()));
        loop {
            canvas.show(|buffer| draw(&self.model, buffer))?;
            let woken = self.wait()?;
            if self.signals.came() {
                return Ok(End::Stopped);
            }
            if terminal::has_panicked() {
                bail!("a part of nodeward failed, as told above; please report that");
            }
            canvas = self.resized(canvas);
            for event in self.events(woken)? {
                let Some(event) = event else { return Ok(End::Stopped) };
                match update(&mut self.model, event) {
                    None => {}
                    Some(ScreenRequest::Quit) => return Ok(End::Asked),
                    Some(ScreenRequest::Redraw) => canvas.forget(),
                    Some(request) => self.mover.take(request),
                }
            }
            self.tell_interest();
        }
    }

    /// Waits until something came.
    fn wait(&self) -> Result<Woken> {
        let time = match () {
            () if self.keys.is_waiting() => KEY_TIME,
            () if self.mover.is_at_work() => MOVE_TIME,
            () => IDLE_TIME,
        };
        let input = io::stdin();
        let mut fds =
            vec![PollFd::new(&input, PollFlags::IN), PollFd::new(&self.inbox.woken, PollFlags::IN)];
        if let Some(messages) = &self.messages {
            fds.push(PollFd::new(&messages.pipe, PollFlags::IN));
        }
        let time = Timespec::try_from(time)?;
        match poll(&mut fds, Some(&time)) {
            Ok(0) => Ok(Woken::Clock),
            Ok(_) if !fds[0].revents().is_empty() => Ok(Woken::Keys),
            Ok(_) | Err(Errno::INTR) => Ok(Woken::Others),
            Err(error) => Err(error).context("cannot wait for keys"),
        }
    }

    /// Returns what came; an empty place is the end of the terminal.
    fn events(&mut self, woken: Woken) -> Result<Vec<Option<ScreenEvent>>> {
        let mut events = Vec::new();
        for sent in self.inbox.take() {
            let event = sent?;
            if matches!(event, ScreenEvent::Sample(_)) {
                self.fresh_at = Instant::now();
            }
            events.push(Some(event));
        }
        let said = self.messages.iter_mut().flat_map(MessageCatcher::take);
        events.extend(said.map(|line| Some(ScreenEvent::Said(line))));
        events.extend(self.mover.status().map(ScreenEvent::Moving).map(Some));
        let age = self.fresh_at.elapsed();
        if age >= self.late_after && self.model.sample.is_some() {
            events.push(Some(ScreenEvent::Late(age)));
        }
        match woken {
            Woken::Keys => events.extend(self.read_keys()),
            Woken::Clock => events.extend(self.keys.time_out().map(ScreenEvent::Key).map(Some)),
            Woken::Others => {}
        }
        Ok(events)
    }

    fn read_keys(&mut self) -> Vec<Option<ScreenEvent>> {
        let mut bytes = [0; 1024];
        match rustix::io::read(io::stdin().as_fd(), &mut bytes) {
            Ok(0) => vec![None],
            Ok(count) => {
                let keys = self.keys.feed(&bytes[..count]);
                keys.into_iter().map(|key| Some(ScreenEvent::Key(key))).collect()
            }
            Err(Errno::INTR | Errno::AGAIN) => Vec::new(),
            Err(_) => vec![None],
        }
    }

    /// Follows the size of the terminal.
    fn resized(&mut self, canvas: Canvas) -> Canvas {
        let area = terminal::area();
        if (area.width, area.height) == self.model.size {
            return canvas;
        }
        update(&mut self.model, ScreenEvent::Resized(area.width, area.height));
        Canvas::new(area)
    }

    fn tell_interest(&mut self) {
        let detail = match self.model.look {
            Look::Detail(pid) => Some(pid),
            Look::Processes | Look::Groups | Look::Help => None,
        };
        let interest = Interest { seen: seen(&self.model), detail };
        if interest != self.interest {
            self.reader.look_at(interest.clone());
            self.interest = interest;
        }
    }
}
