//! The `rc3` command beside this program: small exchanges through `rc3 tunnel`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{
    act::Job,
    error::NetError,
    interrupt,
    process::Process,
    run::Lab,
    scheme::{HostPair, PORT, Scheme},
    site::RECEIVER,
    streams,
    transport::{Exchange, Transport},
};
use crate::{
    document::{Document, Table},
    statistics::Sample,
};

/// Exchanges of one byte: keystrokes and their echo.
const STROKES: u32 = 100;
/// Where the tunnel listens at the sender.
const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9007);
/// For a listener to come up.
const START: Duration = Duration::from_secs(2);

pub(super) fn rc3() -> Result<PathBuf, NetError> {
    let program = std::env::current_exe()?.with_file_name("rc3");
    match program.exists() {
        true => Ok(program),
        false => Err(NetError::Missing(vec!["rc3 beside this program (cargo build -p rc3)".to_owned()])),
    }
}

/// The ticket in a line, if there is one.
fn ticket(line: &str) -> Option<&str> {
    let from = line.find("rc3://")?;
    line[from..].split(['"', ' ']).next()
}

pub(super) fn ticket_of(process: &Process) -> Result<String, NetError> {
    loop {
        if let Some(ticket) = ticket(&process.line()?) {
            return Ok(ticket.to_owned());
        }
    }
}

/// Makes small exchanges over kernel TCP, and over kernel TCP through a tunnel, idle and beside bulk data.
pub fn tunnel(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let path = lab.options.path_of(20, 200);
    let site = lab.site(&path)?;
    let strokes = lab.options.pick(lab.options.args.exchanges, STROKES, STROKES / 5);
    let _wan = site.start_wan(&path, 1)?;
    let tcp = Scheme::own(Transport::Tcp)?;
    // Also for the tunnel, which reaches only the receiver's loopback.
    let direct = site.place();
    let server = tcp.serve(&HostPair { address: SocketAddr::from(([0, 0, 0, 0], PORT)), ..direct })?;
    let state = tempfile::tempdir()?;
    let state = |side: &str| state.path().join(side).display().to_string();
    let bind = format!("{RECEIVER}:4433");
    let words = ["tunnel", "--no-path-memory"];
    let listens = ["--state", &state("there"), "--listen", "--bind", &bind];
    let there = Process::start("rc3 tunnel", site.receiver.command(rc3()?).args(words).args(listens))?;
    let forwards = ["--state", &state("here"), "-L", &format!("{}:localhost:{PORT}", LOCAL.port())];
    let mut here = site.sender.command(rc3()?);
    here.env("RC3_TICKET", ticket_of(&there)?).args(words).args(forwards);
    let _here = Process::start("rc3 tunnel", &mut here)?;
    interrupt::sleep(START)?;
    let inside = HostPair { address: LOCAL, ..direct };
    let bulk = |place: &HostPair<'_>| {
        let long = Process::job("long flow", place.sender, &Job::Long(place.address, 0))?;
        interrupt::sleep(START + path.rtt * 50)?;
        Ok::<_, NetError>(long)
    };
    let mut table = Table::new(["echo of one byte", "#median, ms", "#95 %"]);
    let cases: [(&str, &HostPair<'_>, Option<&HostPair<'_>>); 5] = [
        ("TCP, idle", &direct, None),
        ("rc3 tunnel, idle", &inside, None),
        ("TCP, beside bulk TCP", &direct, Some(&direct)),
        ("rc3 tunnel, beside bulk TCP", &inside, Some(&direct)),
        ("rc3 tunnel, beside bulk inside", &inside, Some(&inside)),
    ];
    for (name, place, beside) in cases {
        let times = lab.attempt(name, || {
            let bulk = beside.map(bulk).transpose()?;
            let exchange = Exchange { count: strokes, bytes: 1, new_connections: false };
            let times = streams::ask(place, &server, exchange)?;
            // What is still queued.
            drop(bulk);
            interrupt::sleep(path.rtt * 5).map(|()| times)
        });
        times.iter().for_each(|times| table.row(name, cells(times)));
    }
    let text = format!("{path}, {strokes} exchanges, CUBIC everywhere:");
    Ok(vec![Document::new("Keystrokes through rc3 tunnel").text(text).table(table)])
}

fn cells(micros: &Sample) -> [String; 2] {
    [0.5, 0.95].map(|share| format!("{:.1}", micros.quantile(share) / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_found_in_json_and_in_text() {
        assert_eq!(ticket("{\"ticket\":\"rc3://abc\",\"x\":1}"), Some("rc3://abc"));
        assert_eq!(ticket("rc3://abc"), Some("rc3://abc"));
        assert_eq!(ticket("nothing"), None);
        assert_eq!(cells(&(1..=100).map(|nth| f64::from(nth) * 1e3).collect()), ["50.0", "95.0"]);
    }
}
