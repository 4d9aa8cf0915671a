//! The `rc3` command beside this program: a file by `rc3 send`, and small exchanges through `rc3 tunnel`.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use super::{
    error::NetError,
    experiment::Options,
    interrupt,
    namespace::Namespace,
    others,
    path::Path,
    process::Process,
    report::Section,
    run::Lab,
    scheme::{PORT, Place, Scheme},
    site::RECEIVER,
    streams::{self, Hosts},
    tables,
    transport::Transport,
};
use crate::{document::Table, statistics::Sample};

/// Bytes of the file.
const FILE: u64 = 500_000_000;
/// Exchanges of one byte: keystrokes and their echo.
const STROKES: u32 = 100;
/// Where the tunnel listens at the sender.
const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9007);
/// For a listener to come up.
const START: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(300);

fn rc3() -> Result<PathBuf, NetError> {
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

fn start(host: &Namespace, what: &str, words: &[&str]) -> Result<Process, NetError> {
    let mut command = host.command(rc3()?);
    command.args(words);
    Process::start(format!("rc3 {what}"), command)
}

fn ticket_of(process: &Process) -> Result<String, NetError> {
    loop {
        if let Some(ticket) = ticket(&process.line()?) {
            return Ok(ticket.to_owned());
        }
    }
}

/// Sends a file over a veth hosts.
///
/// # Errors
/// If a process fails, or another file arrives.
pub fn transfer(lab: &mut Lab) -> Result<Vec<Section>, NetError> {
    let hosts = Hosts::veth(lab.options.args.mtu)?;
    let folder = tempfile::tempdir()?;
    let (file, to) = (folder.path().join("file"), folder.path().join("in"));
    let bytes = lab.options.sizes(&[FILE], &[FILE / 10])[0];
    fs::create_dir(&to)?;
    fs::File::create(&file)?.set_len(bytes)?;
    let names = ["rc3 send".to_owned()];
    let measured = lab.turns(&names, |_| {
        let (place, to) = (hosts.place(), to.display().to_string());
        let listen = SocketAddr::new(place.address.ip(), PORT).to_string();
        let receiver = start(place.receiver, "recv", &["recv", "--listen", &listen, "--dir", &to, "--json"])?;
        let (ticket, begun) = (ticket_of(&receiver)?, Instant::now());
        let words = ["send", &file.display().to_string(), &ticket, "--json"];
        start(place.sender, "send", &words)?.rest(PATIENCE)?;
        receiver.rest(PATIENCE)?;
        let seconds = begun.elapsed().as_secs_f64();
        let arrived = PathBuf::from(&to).join("file");
        if fs::metadata(&arrived)?.len() != bytes {
            return Err(NetError::Invalid("another file has arrived".to_owned()));
        }
        fs::remove_file(arrived)?;
        Ok(bytes as f64 * 8e-9 / seconds)
    })?;
    let mut table = Table::new(&["program", "#Gbit/s"]);
    table.rows.push(vec![names[0].clone(), tables::estimated(measured[0].iter().copied())]);
    let text =
        format!("{} over a veth hosts, with the start of the sender:", rc3_text::units::about_bytes(bytes));
    Ok(vec![Section::new("A file by rc3 send").text(text).table(table)])
}

/// The path of a tunnel.
pub fn tunnel_path(options: &Options) -> Path {
    options.path_of(20, 200)
}

/// Makes small exchanges over kernel TCP, and over kernel TCP through a tunnel, idle and beside bulk data.
///
/// # Errors
/// If a process fails.
pub fn tunnel(lab: &mut Lab) -> Result<Vec<Section>, NetError> {
    let (site, path) = (lab.site()?, tunnel_path(&lab.options));
    let strokes = lab.options.pick(lab.options.args.counts.exchanges, STROKES, STROKES / 5);
    site.set_card(&path)?;
    let _wan = site.start_wan(&path, 1, None)?;
    let tcp = Scheme::own(Transport::Tcp)?;
    // Also for the tunnel, which reaches only the receiver's loopback.
    let direct = site.place();
    let server = tcp.serve(&Place { address: SocketAddr::from(([0, 0, 0, 0], PORT)), ..direct }, &[])?;
    let state = tempfile::tempdir()?;
    let state = |side: &str| state.path().join(side).display().to_string();
    let bind = format!("{RECEIVER}:4433");
    let words = ["tunnel", "--no-path-memory", "--state", &state("there"), "--listen", "--bind", &bind];
    let there = start(&site.receiver, "tunnel", &words)?;
    let mut command = site.sender.command(rc3()?);
    command.env("RC3_TICKET", ticket_of(&there)?);
    command.args(["tunnel", "--no-path-memory", "--state", &state("here")]);
    command.args(["-L", &format!("{}:localhost:{PORT}", LOCAL.port())]);
    let _here = Process::start("rc3 tunnel", command)?;
    interrupt::sleep(START)?;
    let inside = Place { address: LOCAL, ..direct };
    let bulk = |place: &Place<'_>| {
        let long = others::start(place.sender, "long flow", &["long", "cubic", &place.address.to_string()])?;
        interrupt::sleep(START + path.rtt * 50)?;
        Ok::<_, NetError>(long)
    };
    let mut table = Table::new(&["echo of one byte", "#median, ms", "#95 %"]);
    let cases: [(&str, &Place<'_>, Option<&Place<'_>>); 5] = [
        ("TCP, idle", &direct, None),
        ("rc3 tunnel, idle", &inside, None),
        ("TCP, beside bulk TCP", &direct, Some(&direct)),
        ("rc3 tunnel, beside bulk TCP", &inside, Some(&direct)),
        ("rc3 tunnel, beside bulk inside", &inside, Some(&inside)),
    ];
    for (name, place, beside) in cases {
        let times = lab.step(name, || {
            let _bulk = beside.map(bulk).transpose()?;
            streams::ask(place, &tcp, &server, strokes, 1, false)
        })?;
        table.rows.push([vec![name.to_owned()], cells(&times).into()].concat());
        // What is still queued.
        interrupt::sleep(path.rtt * 5)?;
    }
    let text = format!("{path}, {strokes} exchanges, CUBIC everywhere:");
    Ok(vec![Section::new("Keystrokes through rc3 tunnel").text(text).table(table)])
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
