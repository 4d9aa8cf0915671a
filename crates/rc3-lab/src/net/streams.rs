//! Long streams and short exchanges between two hosts without a router: what the programs themselves cost.

use std::{net::SocketAddr, time::Duration};

use rc3_text::units::about_bytes;

use super::{
    error::NetError,
    namespace::Namespace,
    run::Lab,
    scheme::{HostPair, PORT, Scheme, Server},
    tables,
    transport::{Exchange, Task, Timed},
};
use crate::{
    document::{Document, Table},
    statistics::{MedianInterval, Sample},
};

/// Bytes of a stream, and of an exchange.
const STREAM: u64 = 1_000_000_000;
const EXCHANGE: u64 = 65_536;
/// Of exchanges.
const COUNT: u32 = 2000;
/// Percentiles of the times of exchanges, and at which of them schemes are compared run by run: the others are those of
/// few exchanges.
const SHARES: [f64; 6] = [0.1, 0.5, 0.9, 0.99, 0.999, 1.0];
const COMPARED: usize = 4;
/// With which scheme others are compared.
const REFERENCE: &str = "quinn";
const PATIENCE: Duration = Duration::from_secs(300);

/// Two hosts.
#[derive(Debug)]
pub struct Hosts {
    sender: Namespace,
    receiver: Namespace,
    address: SocketAddr,
    mtu: Option<u16>,
    name: &'static str,
}

impl Hosts {
    /// This host.
    pub fn loopback(mtu: Option<u16>) -> Self {
        let (sender, receiver) = (Namespace::HERE, Namespace::HERE);
        Self { sender, receiver, address: SocketAddr::from(([127, 0, 0, 1], PORT)), mtu, name: "loopback" }
    }

    /// Two network namespaces with a veth pair between them.
    pub fn veth(mtu: Option<u16>) -> Result<Self, NetError> {
        let (sender, receiver) = (Namespace::new("sender")?, Namespace::new("receiver")?);
        sender.join("card", "10.85.0.1/24", (&receiver, "card", "10.85.0.2/24"), mtu.unwrap_or(1500))?;
        let address = SocketAddr::from(([10, 85, 0, 2], PORT));
        Ok(Self { sender, receiver, address, mtu, name: "a veth pair" })
    }

    /// Where schemes run.
    pub fn place(&self) -> HostPair<'_> {
        HostPair { sender: &self.sender, receiver: &self.receiver, address: self.address, mtu: self.mtu }
    }
}

/// Sends one long stream.
pub fn send(place: &HostPair<'_>, scheme: &Scheme, bytes: u64) -> Result<Timed, NetError> {
    let server = scheme.serve(place)?;
    let sender = server.client(place, Task::Time(bytes, 1))?;
    Ok(serde_json::from_str(&sender.line_in(PATIENCE)?)?)
}

/// Gbit per CPU second of both ends.
pub fn per_cpu_second(timed: &Timed, bytes: u64) -> f64 {
    bytes as f64 * 8e-9 / (timed.sender_cpu + timed.receiver_cpu)
}

/// Makes exchanges with a server and returns how long each took, in microseconds.
pub fn ask(place: &HostPair<'_>, server: &Server, exchange: Exchange) -> Result<Sample, NetError> {
    let line = server.client(place, Task::Ask(exchange))?.line_in(PATIENCE)?;
    Ok(line.split_whitespace().filter_map(|word| word.parse::<f64>().ok()).collect())
}

/// One long stream of each scheme in turn.
pub fn bulk(lab: &mut Lab, hosts: &Hosts) -> Result<Vec<Document>, NetError> {
    let usual = ["rc3", "rc3-trust", "rc3-off", "quinn", "quinn-large", "s2n-quic", "tcp"];
    let schemes = lab.schemes(&usual)?;
    let names = names(&schemes);
    let mut sections = Vec::new();
    for bytes in lab.options.sizes(&[STREAM], &[STREAM / 10]) {
        let measured = lab.turns(&names, |nth| send(&hosts.place(), &schemes[nth], bytes));
        let rates = |timed: &Timed| bytes as f64 * 8e-9 / timed.total();
        let mut table =
            Table::new(["scheme", "#Gbit/s", "#Gbit per CPU second, both ends", "#over that of quinn"]);
        let per_second: Vec<Vec<f64>> = measured
            .iter()
            .map(|runs| runs.iter().map(|timed| per_cpu_second(timed, bytes)).collect())
            .collect();
        let over = over_reference(&names, &per_second);
        for (nth, name) in names.iter().enumerate() {
            let rates: Vec<f64> = measured[nth].iter().map(rates).collect();
            let cells = [MedianInterval::of(&rates), MedianInterval::of(&per_second[nth]), over[nth]];
            table.row(name, cells.map(tables::optional));
        }
        let title = format!("{} over {}", about_bytes(bytes), hosts.name);
        sections.push(Document::new(title).text(HOW).table(table));
    }
    Ok(sections)
}

const HOW: &str = "Medians and intervals; ratios are of the same run. CPU time is user and system time of the two processes.";

/// Exchanges of each scheme in turn, on one connection, and on loopback also each on a new one.
pub fn exchanges(lab: &mut Lab, hosts: &Hosts) -> Result<Vec<Document>, NetError> {
    let schemes = lab.schemes(&["rc3", "rc3-off", "quinn", "tcp"])?;
    let names = names(&schemes);
    let count = lab.options.pick(lab.options.args.exchanges, COUNT, COUNT / 10);
    let mut sections = Vec::new();
    for bytes in lab.options.sizes(&[EXCHANGE], &[EXCHANGE]) {
        for new_connections in [false, true].into_iter().take(if hosts.name == "loopback" { 2 } else { 1 }) {
            let count = if new_connections { count / 4 } else { count };
            let exchange = Exchange { count, bytes: bytes as usize, new_connections };
            let place = hosts.place();
            let measured = lab.turns(&names, |nth| ask(&place, &schemes[nth].serve(&place)?, exchange));
            let how = if new_connections { "each on a new connection" } else { "on one connection" };
            let title = format!("{count} exchanges of {} over {}, {how}", about_bytes(bytes), hosts.name);
            sections.push(section(title, &names, &measured));
        }
    }
    Ok(sections)
}

fn section(title: String, names: &[String], measured: &[Vec<Sample>]) -> Document {
    let shares = SHARES.iter().map(|share| format!("#{} %", 100.0 * share));
    let head: Vec<String> = std::iter::once("scheme".to_owned()).chain(shares).collect();
    let (mut times, mut ratios) = (Table::new(&head), Table::new(&head[..=COMPARED]));
    let of = |share: f64| -> Vec<Vec<f64>> {
        measured.iter().map(|runs| runs.iter().map(|run| run.quantile(share)).collect()).collect()
    };
    let over: Vec<_> = SHARES[..COMPARED].iter().map(|share| over_reference(names, &of(*share))).collect();
    for (nth, name) in names.iter().enumerate() {
        let median = |share: &f64| MedianInterval::of(&of(*share)[nth]).map(|estimate| estimate.median);
        let text = |median: Option<f64>| median.map_or_else(|| "-".to_owned(), |it| format!("{it:.0}"));
        times.row(name, SHARES.iter().map(median).map(text));
        ratios.row(name, over.iter().map(|over| tables::optional(over[nth])));
    }
    Document::new(title)
        .text("Microseconds, medians over the runs:")
        .table(times)
        .text("The same over those of quinn in the same run, median and interval:")
        .table(ratios)
}

fn names(schemes: &[Scheme]) -> Vec<String> {
    schemes.iter().map(|scheme| scheme.name.clone()).collect()
}

/// What each scheme has over what the reference has in the same run; nothing without a reference.
pub fn over_reference(names: &[String], values: &[Vec<f64>]) -> Vec<Option<MedianInterval>> {
    let reference = names.iter().position(|name| name == REFERENCE).map(|nth| &values[nth]);
    let over = |values: &Vec<f64>| {
        let ratios: Vec<f64> =
            values.iter().zip(reference?).map(|(value, reference)| value / reference).collect();
        MedianInterval::of(&ratios)
    };
    values.iter().map(over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_scheme_beside_itself_changes_nothing() {
        let runs = vec![3.0, 5.0, 4.0, 7.0, 2.0, 6.0];
        let over = over_reference(&names(&["quinn", "rc3"]), &[runs.clone(), runs.clone()]);
        for over in over {
            let MedianInterval { median, low, high, .. } = over.unwrap();
            assert_eq!((median, low, high), (1.0, 1.0, 1.0));
        }
        let twice: Vec<f64> = runs.iter().map(|run| run * 2.0).collect();
        assert_eq!(over_reference(&names(&["quinn", "rc3"]), &[runs.clone(), twice])[1].unwrap().median, 2.0);
        assert_eq!(over_reference(&names(&["rc3"]), &[runs]), [None]);
    }

    #[test]
    fn exchanges_have_percentiles_and_ratios() {
        let sample = |factor: f64| (1..=1000).map(|nth| f64::from(nth) * factor).collect::<Sample>();
        let measured = [vec![sample(1.0), sample(1.0)], vec![sample(2.0), sample(2.0)]];
        let section = section("title".to_owned(), &names(&["quinn", "rc3"]), &measured);
        let tables: Vec<&Table> = section.tables().collect();
        assert_eq!(tables[0].rows[1], ["rc3", "200", "1000", "1800", "1980", "1998", "2000"]);
        assert_eq!(
            tables[1].rows,
            [["quinn", "1.00", "1.00", "1.00", "1.00"], ["rc3", "2.00", "2.00", "2.00", "2.00"]]
        );
    }

    #[test]
    fn cpu_seconds_are_those_of_both_ends() {
        let timed = Timed { connect: 0.5, flow: 1.5, sender_cpu: 1.0, receiver_cpu: 3.0, ..Timed::default() };
        assert_eq!(per_cpu_second(&timed, 1_000_000_000), 2.0);
    }
}
