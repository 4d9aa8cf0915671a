//! `--metrics`: the counters of this process for Prometheus. docs/OBSERVABILITY.md lists them.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use metrics_exporter_prometheus::PrometheusBuilder;

use crate::{
    error::{Error, Result},
    log,
};

/// Prometheus's text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Time between two summaries of the samples of histograms, which would take memory without bound.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Serves the metrics of all endpoints that this process opens later, if there is an address.
///
/// # Errors
/// When the address is taken or not local.
///
/// # Panics
/// Outside a tokio runtime with time.
pub fn serve(address: Option<SocketAddr>) -> Result<()> {
    let Some(address) = address else { return Ok(()) };
    let failed = |error: &dyn std::fmt::Display| {
        Error::local(format!("serve metrics at {address}"), error)
            .hinted("choose another address for --metrics, or stop the program that uses it")
    };
    let listener = TcpListener::bind(address).map_err(|error| failed(&error))?;
    if address.port() == 0 {
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        log::line(format_args!("metrics are at http://{address}/metrics"));
    }
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| failed(&error))?;
    let rendered = handle.clone();
    rc3_cli::metrics::serve(listener, CONTENT_TYPE, move || Some(rendered.render()))
        .map_err(|error| failed(&error))?;
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP_EVERY).await;
            handle.run_upkeep();
        }
    });
    Ok(())
}
