//! A port on which streams arrive.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use pyo3::prelude::*;
use rc3_net::ServerConfig;
use tokio_util::sync::CancellationToken;

use crate::{
    operation::Operation,
    runtime::runtime,
    stream::{Stream, parse, parts},
    tls,
    wakeups::Wakeups,
};

/// A port on which streams arrive.
#[pyclass(frozen, module = "rc3._rc3")]
pub(crate) struct Listener {
    /// `None` once it is closed.
    listener: Mutex<Option<Arc<rc3_net::Listener>>>,
    address: SocketAddr,
    closing: CancellationToken,
}

#[pymethods]
impl Listener {
    /// Listens at the first of `addresses` that this host has.
    #[new]
    fn new(
        addresses: Vec<String>,
        certificate: PathBuf,
        key: PathBuf,
        idle_timeout: f64,
        rlp: &str,
    ) -> PyResult<Self> {
        let config = tls::server(&certificate, &key, tls::transport(idle_timeout, rlp)?)?;
        let _inside = runtime()?.tokio.enter();
        let listener = bind(&addresses, &config)?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener: Mutex::new(Some(Arc::new(listener))),
            address,
            closing: CancellationToken::new(),
        })
    }

    /// Host and port.
    fn address(&self) -> (String, u16) {
        parts(self.address)
    }

    /// The next stream.
    fn accept(&self, wakeups: Py<Wakeups>, report: Py<PyAny>) -> PyResult<Operation> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let listener =
            listener.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "the server is closed"))?;
        let work = async move {
            let (stream, _) = listener.accept().await?;
            Stream::new(stream, wakeups.get())
        };
        Ok(Operation::with_value(report, self.closing.child_token(), work)?)
    }

    /// Ends all accepts and the streams that wait for one; the port is free once the last other stream has ended.
    fn close(&self) {
        self.closing.cancel();
        let Some(listener) = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        // Nobody else may connect; streams go on.
        let _ = listener.endpoint().set_server_config(None);
    }
}

fn bind(addresses: &[String], config: &ServerConfig) -> io::Result<rc3_net::Listener> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in parse(addresses)? {
        match rc3_net::Listener::bind(config.clone(), address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}
