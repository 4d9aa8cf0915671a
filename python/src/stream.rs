//! A byte stream that the thread of an event loop polls.

use std::{
    cell::RefCell,
    io,
    net::SocketAddr,
    path::PathBuf,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use pyo3::{prelude::*, types::PyBytes};
use rc3_net::{Connection, ConnectionError, OwnedReadHalf, OwnedWriteHalf, VarInt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

use crate::{operation::Operation, runtime::runtime, tls, wakeups::Wakeups};

/// Most bytes of one read.
const READ_MAX: usize = 256 << 10;
/// Close code of the end.
const DONE: VarInt = VarInt::from_u32(0);
/// Close code of an abort.
const ABORTED: VarInt = VarInt::from_u32(1);

thread_local! {
    /// Read into before the length of the result is known.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_MAX]);
}

/// A byte stream in both directions.
#[pyclass(frozen, module = "rc3._rc3")]
pub(crate) struct Stream {
    /// Its number among the wake-ups.
    #[pyo3(get)]
    id: u64,
    connection: Connection,
    local: SocketAddr,
    read: Mutex<OwnedReadHalf>,
    write: Mutex<OwnedWriteHalf>,
    readable: Waker,
    writable: Waker,
}

impl Stream {
    pub(crate) fn new(stream: rc3_net::Stream, wakeups: &Wakeups) -> io::Result<Self> {
        let (connection, local) = (stream.connection().clone(), stream.local_addr()?);
        let (read, write) = stream.into_split();
        let (id, readable, writable) = wakeups.register();
        let (read, write) = (Mutex::new(read), Mutex::new(write));
        Ok(Self { id, connection, local, read, write, readable, writable })
    }
}

#[pymethods]
impl Stream {
    /// The next bytes, `b""` at the end; `None` if there are none yet: then the wake-ups will name this stream.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        READ.with_borrow_mut(|buffer| {
            let read = py.detach(|| {
                let mut read = ReadBuf::new(buffer);
                let cx = &mut Context::from_waker(&self.readable);
                let polled = Pin::new(&mut *lock(&self.read)).poll_read(cx, &mut read);
                polled.map_ok(|()| read.filled().len())
            });
            match read {
                Poll::Pending => Ok(None),
                Poll::Ready(length) => Ok(Some(PyBytes::new(py, &buffer[..length.map_err(raised)?]))),
            }
        })
    }

    /// Writes bytes of `data` from `offset` on, and returns how many; `None` if there is no room yet: then the wake-ups
    /// will name this stream.
    fn write(&self, py: Python<'_>, data: &[u8], offset: usize) -> PyResult<Option<usize>> {
        let data = data.get(offset..).unwrap_or_default();
        let written = py.detach(|| {
            let cx = &mut Context::from_waker(&self.writable);
            Pin::new(&mut *lock(&self.write)).poll_write(cx, data)
        });
        match written {
            Poll::Pending => Ok(None),
            Poll::Ready(length) => Ok(Some(length.map_err(raised)?)),
        }
    }

    /// Ends the sending direction.
    fn finish(&self, py: Python<'_>) {
        py.detach(|| {
            let cx = &mut Context::from_waker(Waker::noop());
            // Ready at once, and without errors: see `SendStream`.
            let _ = Pin::new(&mut *lock(&self.write)).poll_shutdown(cx);
        });
    }

    /// Ends the sending direction and closes the connection once the peer has everything.
    fn close(&self, report: Py<PyAny>) -> PyResult<Operation> {
        let connection = self.connection.clone();
        let work = async move {
            match connection.close_gracefully(DONE, b"").await {
                // A peer that has closed in order wants no more.
                Err(ConnectionError::ApplicationClosed(close)) if close.error_code == DONE => Ok(()),
                closed => Ok(closed?),
            }
        };
        Ok(Operation::with_value(report, CancellationToken::new(), work)?)
    }

    /// Closes the connection at once.
    fn abort(&self, py: Python<'_>) {
        py.detach(|| self.connection.close(ABORTED, b"aborted"));
    }

    /// Host and port of the peer.
    fn peer(&self) -> (String, u16) {
        parts(self.connection.remote_address())
    }

    /// Host and port of this side.
    fn local(&self) -> (String, u16) {
        parts(self.local)
    }

    /// Whether the RLP loop runs; if not, the connection is plain QUIC.
    fn is_rc3(&self) -> bool {
        self.connection.is_rc3()
    }
}

/// Connects to the first of `addresses` that answers; attempts start a quarter of a second apart (RFC 8305 §5).
#[pyfunction]
pub(crate) fn connect(
    addresses: Vec<String>,
    server_name: String,
    ca: Option<PathBuf>,
    idle_timeout: f64,
    rlp: &str,
    wakeups: Py<Wakeups>,
    report: Py<PyAny>,
) -> PyResult<Operation> {
    let addresses = parse(&addresses)?;
    let config = tls::client(ca.as_deref(), tls::transport(idle_timeout, rlp)?)?;
    let mut endpoint = runtime()?.client()?;
    endpoint.set_default_client_config(config);
    let work = async move {
        let stream = rc3_net::Stream::connect_any(&endpoint, addresses, &server_name).await?;
        Stream::new(stream, wakeups.get())
    };
    Ok(Operation::with_value(report, CancellationToken::new(), work)?)
}

/// Addresses as the package passes them: numeric, with port.
pub(crate) fn parse(addresses: &[String]) -> io::Result<Vec<SocketAddr>> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    addresses.iter().map(|address| address.parse().map_err(invalid)).collect()
}

pub(crate) fn parts(address: SocketAddr) -> (String, u16) {
    (address.ip().to_canonical().to_string(), address.port())
}

/// The exception for an error of a stream: a lost connection has the class that it would have over TCP, and its reason.
fn raised(error: io::Error) -> PyErr {
    let source = error.get_ref().and_then(|error| error.source());
    let Some(reason) = source.and_then(|source| source.downcast_ref::<ConnectionError>()) else {
        return error.into();
    };
    match io::Error::from(reason.clone()) {
        lost if lost.kind() == io::ErrorKind::Other => {
            io::Error::new(io::ErrorKind::ConnectionReset, reason.clone()).into()
        }
        lost => lost.into(),
    }
}

fn lock<T>(half: &Mutex<T>) -> MutexGuard<'_, T> {
    half.lock().unwrap_or_else(PoisonError::into_inner)
}
