//! Wakes an event loop by a descriptor.
//!
//! Invariant: a wake-up needs neither the interpreter nor memory without bound. Each stream and direction is in the list at
//! most once before the loop takes it, because it registers its waker again only after that.

use std::{
    io::{self, Read, Write},
    mem,
    os::{fd::AsRawFd, unix::net::UnixStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Wake, Waker},
};

use pyo3::prelude::*;

/// The wake-ups of one event loop.
#[pyclass(frozen, module = "rc3._rc3")]
pub(crate) struct Wakeups {
    reader: UnixStream,
    shared: Arc<Shared>,
    streams: AtomicU64,
}

struct Shared {
    /// Streams that can go on, and whether by writing.
    ready: Mutex<Vec<(u64, bool)>>,
    writer: UnixStream,
}

#[pymethods]
impl Wakeups {
    #[new]
    fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let shared = Arc::new(Shared { ready: Mutex::default(), writer });
        Ok(Self { reader, shared, streams: AtomicU64::new(0) })
    }

    /// Readable while streams wait to be taken.
    fn fileno(&self) -> i32 {
        self.reader.as_raw_fd()
    }

    /// The streams that can go on, and whether by writing.
    fn take(&self) -> Vec<(u64, bool)> {
        // First the bytes: a stream that comes later writes another one.
        let mut bytes = [0; 64];
        while matches!((&self.reader).read(&mut bytes), Ok(1..)) {}
        mem::take(&mut *self.shared.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wakeups {
    /// A new stream's number, and the wakers for reading and writing.
    pub(crate) fn register(&self) -> (u64, Waker, Waker) {
        let id = self.streams.fetch_add(1, Relaxed);
        let waker = |writing| Waker::from(Arc::new(Ready { shared: Arc::clone(&self.shared), id, writing }));
        (id, waker(false), waker(true))
    }
}

/// One direction of a stream.
struct Ready {
    shared: Arc<Shared>,
    id: u64,
    writing: bool,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        let mut ready = self.shared.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.push((self.id, self.writing));
        let first = ready.len() == 1;
        drop(ready);
        if first {
            // A full pipe is readable anyway.
            let _ = (&self.shared.writer).write(&[0]);
        }
    }
}
