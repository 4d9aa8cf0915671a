//! A port on which streams arrive.

use std::{io, path::PathBuf, sync::Arc};

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
    listener: Arc<rc3_net::Listener>,
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
        let listener = Arc::new(bind(&addresses, &config)?);
        Ok(Self { listener, closing: CancellationToken::new() })
    }

    /// Host and port.
    fn address(&self) -> PyResult<(String, u16)> {
        Ok(parts(self.listener.local_addr()?))
    }

    /// The next stream.
    fn accept(&self, wakeups: Py<Wakeups>, report: Py<PyAny>) -> PyResult<Operation> {
        let listener = Arc::clone(&self.listener);
        let work = async move {
            let (stream, _) = listener.accept().await?;
            Stream::new(stream, wakeups.get())
        };
        Ok(Operation::with_value(report, self.closing.child_token(), work)?)
    }

    /// Ends all accepts; the port is free once the last stream has ended.
    fn close(&self) {
        self.closing.cancel();
        // Nobody else may connect; streams go on.
        let _ = self.listener.endpoint().set_server_config(None);
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
