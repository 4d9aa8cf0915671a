//! What is measured, and in which unit.

use super::{ideal, router, simulator};
use crate::net::{
    scheme::{Place, Scheme},
    streams::{Hosts, ask, per_cpu_second, send},
    transport::{Result, Transport},
};

/// Long enough that the handshake and slow start are a small part.
const BULK_BYTES: u64 = 400_000_000;
const EXCHANGES: u32 = 3000;
const EXCHANGE_BYTES: u64 = 65_536;
/// At which shares of the exchanges they are compared.
const SHARES: [f64; 3] = [0.1, 0.5, 0.9];
/// Packets of one length, as on Ethernet.
const MTU: u16 = 1500;

/// A ratio, and whether more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measure {
    /// Its name in the file.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) title: &'static str,
    pub(crate) more_is_better: bool,
}

const fn less(name: &'static str, title: &'static str) -> Measure {
    Measure { name, title, more_is_better: false }
}

/// All, in the order of the page.
pub(crate) const MEASURES: [Measure; 11] = [
    Measure {
        name: "bulk",
        title: "Gbit per CPU second of both ends, rc3 to quinn with windows and socket buffers as large",
        more_is_better: true,
    },
    less("exchange-p10", "64 KiB exchanges on one connection, 10th percentile, rc3 to quinn"),
    less("exchange-p50", "the same, median"),
    less("exchange-p90", "the same, 90th percentile"),
    less("router-whole", "a packet through the router, to the hash"),
    less("router-signalled", "a packet that leaves in two fragments, to the hash"),
    less("simulator-plain", "a link-packet of the simulator with plain QUIC, to the hash"),
    less("simulator-rc3", "the same with rc3"),
    less("fifo-1MB", "1 MB through a FIFO that rc3 meets for the first time, to the ideal"),
    less("fifo-20MB", "20 MB, the same"),
    less("priority-1MB", "1 MB where priorities are known to be honoured, to the ideal"),
];

/// All measures with the values of their runs.
pub(crate) fn measure(runs: usize) -> Result<Vec<(Measure, Vec<f64>)>> {
    let hosts = Hosts::loopback(Some(MTU));
    let mut values = vec![bulk_ratios(&hosts.place(), runs)?];
    values.extend(exchange_ratios(&hosts.place(), runs)?);
    values.extend(router::ratios(runs)?);
    values.extend(simulator::ratios(runs)?);
    values.extend(ideal::ratios()?);
    Ok(MEASURES.into_iter().zip(values).collect())
}

fn bulk_ratios(place: &Place<'_>, runs: usize) -> Result<Vec<f64>> {
    let rate = |transport| -> Result<f64> {
        Ok(per_cpu_second(&send(place, &Scheme::own(transport)?, BULK_BYTES)?, BULK_BYTES))
    };
    (0..runs).map(|_| Ok(rate(Transport::Rc3)? / rate(Transport::QuinnLarge)?)).collect()
}

fn exchange_ratios(place: &Place<'_>, runs: usize) -> Result<Vec<Vec<f64>>> {
    let mut ratios = vec![Vec::new(); SHARES.len()];
    for _ in 0..runs {
        let times = |transport| {
            let scheme = Scheme::own(transport)?;
            ask(place, &scheme, &scheme.serve(place, &[])?, EXCHANGES, EXCHANGE_BYTES, false)
        };
        let (rc3, quinn) = (times(Transport::Rc3)?, times(Transport::Quinn)?);
        for (ratios, share) in ratios.iter_mut().zip(SHARES) {
            ratios.push(rc3.quantile(share) / quinn.quantile(share));
        }
    }
    Ok(ratios)
}
