//! A forwarder between devices: one thread that waits for packets, timeouts, signals and metrics requests.

use std::{
    fs, io,
    net::TcpListener,
    num::NonZeroU64,
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    thread::set_current_timer_slack,
};

use super::{
    config::{Config, ConfigError},
    device::Device,
    error::ForwardError,
    forwarder::Forwarder,
    metrics::Asked,
    privileges::{self, Identity},
    statistics::Totals,
};

/// Most packets read from a device before others have their turn.
const READ_BATCH: usize = 64;
/// Most packets written in a turn: more than what one batch of reads can become, each packet in two fragments, so that
/// packets do not pile up. It is bounded because the kernel would drop other packets meanwhile.
const WRITE_BATCH: usize = 4 * READ_BATCH;
/// Timer slack of the kernel; the default is 50 us.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::MIN;

/// Events of a running forwarder.
#[derive(Debug)]
pub enum Event<'a> {
    /// Packets are forwarded from now on.
    Ready(&'a Config),
    /// The file was reloaded and is now in effect.
    Reloaded,
    /// The reloaded file is invalid: the old configuration stays.
    NotReloaded(ForwardError),
    /// Statistics are due: current totals, those of the previous report, and the time between.
    Statistics {
        /// Since the start.
        totals: &'a Totals,
        /// Totals at the previous report.
        earlier: Option<&'a Totals>,
        /// Time since the previous report.
        interval: Duration,
        /// How long it has run.
        uptime: Duration,
    },
    /// The forwarder stops: totals since its start.
    Stopped(&'a Totals, Duration),
}

/// Reads a configuration file.
///
/// # Errors
/// If it cannot be read or is invalid.
pub fn load(path: &Path) -> Result<Config, ForwardError> {
    let text =
        fs::read_to_string(path).map_err(|source| ForwardError::Read { path: path.to_owned(), source })?;
    Ok(Config::parse(&text, &path.display().to_string())?)
}

/// Forwards until SIGINT or SIGTERM. SIGHUP reloads the file.
///
/// This thread, and all threads started later, drop their privileges once everything is open. There must be no other
/// threads.
///
/// # Errors
/// If opening fails, or the system fails later.
pub fn run(path: &Path, on_event: impl FnMut(Event<'_>)) -> Result<(), ForwardError> {
    let config = load(path)?;
    let identity = Identity::find(&config.forward).map_err(ForwardError::Privileges)?;
    let devices = config.port.iter().map(|port| Device::open(&port.into())).collect::<Result<Vec<_>, _>>()?;
    let listener = config.forward.prometheus.map(TcpListener::bind).transpose();
    let listener = listener.map_err(ForwardError::Metrics)?;
    let mut seed = [0; 8];
    SystemRandom::new().fill(&mut seed).map_err(|_| io::Error::other("the system has no random numbers"))?;
    // Before threads start, so that they inherit it.
    let signals = signals()?;
    set_current_timer_slack(Some(TIMER_SLACK)).map_err(io::Error::from)?;
    privileges::give_up(identity).map_err(ForwardError::Privileges)?;
    let asked = listener.map(Asked::serve).transpose().map_err(ForwardError::Metrics)?;

    let started = Instant::now();
    let forwarder = Forwarder::new(&config, u64::from_ne_bytes(seed), started);
    let path = path.to_owned();
    let mut running = Running {
        path,
        config,
        devices,
        signals,
        asked,
        forwarder,
        started,
        last: (started, None),
        on_event,
    };
    running.run()
}

fn signals() -> io::Result<SignalFd> {
    let set: SigSet = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

struct Running<T> {
    path: PathBuf,
    config: Config,
    devices: Vec<Device>,
    signals: SignalFd,
    asked: Option<Asked>,
    forwarder: Forwarder,
    started: Instant,
    /// The last report of statistics and its time.
    last: (Instant, Option<Totals>),
    on_event: T,
}

/// Pending work other than timeouts.
struct Woken {
    signals: bool,
    asked: bool,
    /// By device.
    readable: Vec<bool>,
}

impl<T: FnMut(Event<'_>)> Running<T> {
    fn run(&mut self) -> Result<(), ForwardError> {
        (self.on_event)(Event::Ready(&self.config));
        let mut woken = Woken { signals: false, asked: false, readable: vec![false; self.devices.len()] };
        loop {
            self.transmit(Instant::now());
            self.tell_statistics(Instant::now());
            self.wait(&mut woken)?;
            let now = Instant::now();
            self.forwarder.advance(now);
            for port in 0..self.devices.len() {
                if woken.readable[port] {
                    self.receive(now, port)?;
                }
            }
            if woken.signals && self.heed()? {
                return Ok(());
            }
            if woken.asked
                && let Some(asked) = &mut self.asked
            {
                let forwarder = &self.forwarder;
                asked.answer(|| forwarder.totals());
            }
        }
    }

    /// Writes a batch of due packets.
    fn transmit(&mut self, now: Instant) {
        self.forwarder.advance(now);
        for (port, device) in self.devices.iter().enumerate() {
            for _ in 0..WRITE_BATCH {
                let Some(packet) = self.forwarder.poll_transmit(now, port) else { break };
                let taken = device.write(&packet);
                self.forwarder.on_transmit(port, packet.len(), taken);
                self.forwarder.recycle(packet);
            }
        }
    }

    /// Reads a batch.
    fn receive(&mut self, now: Instant, port: usize) -> io::Result<()> {
        for _ in 0..READ_BATCH {
            let mut packet = self.forwarder.buffer();
            if !self.devices[port].read(&mut packet)? {
                self.forwarder.recycle(packet);
                break;
            }
            self.forwarder.receive(now, port, packet);
        }
        Ok(())
    }

    fn tell_statistics(&mut self, now: Instant) {
        let Some(every) = self.config.forward.statistics else { return };
        let (last, earlier) = &mut self.last;
        if now < *last + every {
            return;
        }
        let totals = self.forwarder.totals();
        (self.on_event)(Event::Statistics {
            totals: &totals,
            earlier: earlier.as_ref(),
            interval: now - *last,
            uptime: now - self.started,
        });
        self.last = (now, Some(totals));
    }

    fn wait(&self, woken: &mut Woken) -> io::Result<()> {
        let statistics = self.config.forward.statistics.map(|every| self.last.0 + every);
        let until = self.forwarder.poll_timeout().into_iter().chain(statistics).min();
        let timeout = until
            .map(|until| until.saturating_duration_since(Instant::now()))
            .and_then(|timeout| Timespec::try_from(timeout).ok());
        let asked = self.asked.as_ref().map(AsFd::as_fd);
        let signals = self.signals.as_fd();
        let fds = self.devices.iter().map(AsFd::as_fd).chain([signals]).chain(asked);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| fd.revents().intersects(PollFlags::IN));
        woken.readable.iter_mut().zip(&mut ready).for_each(|(readable, ready)| *readable = ready);
        woken.signals = ready.next().unwrap_or(false);
        woken.asked = ready.next().unwrap_or(false);
        Ok(())
    }

    /// Handles signals; returns whether to stop.
    fn heed(&mut self) -> Result<bool, ForwardError> {
        let mut reload = false;
        while let Some(signal) = self.signals.read_signal().map_err(io::Error::from)? {
            if signal.ssi_signo != Signal::SIGHUP as u32 {
                let totals = self.forwarder.totals();
                (self.on_event)(Event::Stopped(&totals, self.started.elapsed()));
                return Ok(true);
            }
            reload = true;
        }
        if reload {
            let reloaded = self.reload();
            (self.on_event)(match reloaded {
                Ok(()) => Event::Reloaded,
                Err(error) => Event::NotReloaded(error),
            });
        }
        Ok(false)
    }

    fn reload(&mut self) -> Result<(), ForwardError> {
        let config = load(&self.path)?;
        self.config.check_reload(&config).map_err(|fault| ConfigError {
            file: self.path.display().to_string(),
            line: None,
            key: fault.key,
            message: fault.message,
        })?;
        self.forwarder.reload(&config, Instant::now());
        self.config = config;
        Ok(())
    }
}
