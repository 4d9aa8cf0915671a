//! Kick-Ass between real sockets: Figs. 8 to 11 of NU-EECS-16-09, through `kickass forward`.
//!
//! On-off senders in one network namespace, their receiver in another. All runs of a figure have the same sizes and
//! silences. `figures` has what is drawn and printed of `results`.

mod figures;
mod results;

use std::{net::SocketAddr, time::Duration};

use rc3_picture::chart::Colour;
use rc3_text::units::time_text;

use self::results::Run;
use super::{
    error::NetError,
    experiment::Options,
    forward::{Forwarder, Port, address},
    namespace::Namespace,
    others,
    process::Process,
    report::Section,
    run::Lab,
    scheme::{PORT, Place, Scheme, Server},
    transport::Transport,
};

/// What a run differs in.
#[derive(Debug, Clone, Copy)]
struct Setting {
    /// What people call it.
    title: &'static str,
    colour: Colour,
    /// Senders take them in turn.
    schemes: &'static str,
    /// Whether kernel TCP uses ECN.
    ecn: bool,
    /// Further keys of the port to the receiver.
    keys: &'static str,
}

const CUBIC: Setting =
    Setting { title: "CUBIC, drop-tail", colour: Colour::Vermillion, schemes: "tcp", ecn: false, keys: NONE };
const FQ_CODEL: Setting = Setting {
    title: "CUBIC, FQ-CoDel with ECN",
    colour: Colour::Orange,
    ecn: true,
    keys: "queue = { kind = \"fq-codel\", ecn = true }",
    ..CUBIC
};
const PCC: Setting = Setting { title: "rc3, PCC", colour: Colour::Black, schemes: "rc3-pcc", ..CUBIC };
const NEWRENO: Setting =
    Setting { title: "rc3, NewReno", colour: Colour::Grey, schemes: "rc3-newreno", ..CUBIC };
const KICKASS: Setting =
    Setting { title: "rc3, Kick-Ass", colour: Colour::Blue, schemes: "rc3-kickass", keys: SIGNALS, ..CUBIC };
/// The values that the authors of RCP use for completion times.
const KICKASS_FCT: Setting = Setting {
    title: "rc3, Kick-Ass, other RCP",
    colour: Colour::Purple,
    keys: "kickass = { rcp = { alpha = 0.1, beta = 1.0 } }",
    ..KICKASS
};
const RLP: Setting = Setting {
    title: "rc3, NewReno and RLP",
    colour: Colour::Green,
    schemes: "rc3-newreno-rlp",
    keys: "queue = { kind = \"strict-priority\" }",
    ..CUBIC
};
const KICKASS_RLP: Setting = Setting {
    title: "rc3, Kick-Ass and RLP",
    colour: Colour::Sky,
    schemes: "rc3-kickass-rlp",
    keys: "queue = { kind = \"strict-priority\" }\nkickass = {}",
    ..CUBIC
};
/// Those that have the port for themselves, in the order of the tables.
const ALL: [Setting; 8] = [CUBIC, FQ_CODEL, PCC, NEWRENO, KICKASS, KICKASS_FCT, RLP, KICKASS_RLP];
/// Kernel TCP alone at a port with signals, and with Kick-Ass at every other sender.
const ALONE: Setting = Setting { title: "TCP alone", keys: SIGNALS, ..CUBIC };
const SHARED: Setting =
    Setting { title: "TCP beside Kick-Ass", colour: Colour::Blue, schemes: "tcp,rc3-kickass", ..ALONE };

const NONE: &str = "";
const SIGNALS: &str = "kickass = {}";

/// Long flows through two routers, of which the first signals: the rate of its link, and whether others use the second.
const ACCESS: [(&str, Colour, &str, &str, bool); 3] = [
    ("10 Mbit/s access", Colour::Blue, "10mbit", "5M", true),
    ("100 Mbit/s access", Colour::Vermillion, "100mbit", "20M", true),
    ("100 Mbit/s access, no cross traffic", Colour::Green, "100mbit", "20M", false),
];

/// Flows that began in time may take so much longer.
const PATIENCE: Duration = Duration::from_secs(300);

fn light_time(options: &Options) -> Duration {
    options.pick(options.args.time, Duration::from_secs(60), Duration::from_secs(10))
}

fn heavy_time(options: &Options) -> Duration {
    options.pick(options.args.time, Duration::from_secs(120), Duration::from_secs(20))
}

fn path_time(options: &Options) -> Duration {
    options.pick(options.args.time, Duration::from_secs(40), Duration::from_secs(10))
}

/// Fig. 8.
///
/// # Errors
/// If a process fails.
pub fn light(lab: &mut Lab) -> Result<Vec<Section>, NetError> {
    let runs = testbed(lab, &ALL, "light", "100mbit", light_time(&lab.options))?;
    Ok(vec![figures::completion(&results::compared(&runs))])
}

/// Figs. 9 and 10.
///
/// # Errors
/// If a process fails.
pub fn heavy(lab: &mut Lab) -> Result<Vec<Section>, NetError> {
    let runs = testbed(lab, &ALL, "heavy", "10mbit", heavy_time(&lab.options))?;
    let runs = results::compared(&runs);
    Ok(vec![figures::waiting(&runs), figures::throughput(&runs)])
}

/// Kernel TCP beside Kick-Ass.
///
/// # Errors
/// If a process fails.
pub fn shared(lab: &mut Lab) -> Result<Vec<Section>, NetError> {
    let runs = testbed(lab, &[ALONE, SHARED], "light", "100mbit", light_time(&lab.options))?;
    Ok(vec![figures::shared(&runs[0], &runs[1])])
}

/// Fig. 11.
///
/// # Errors
/// If a process fails.
pub fn path(lab: &mut Lab) -> Result<Vec<Section>, NetError> {
    let time = path_time(&lab.options);
    let mut runs = Vec::new();
    for (title, colour, rate, size, with_others) in ACCESS {
        let run = lab.step(title, || over_two_routers(rate, size, with_others, time))?;
        runs.push(Run { title, colour, ..run });
    }
    results::write(&lab.options.args.out, "kickass-fig11", &runs)?;
    Ok(vec![figures::modes(&runs)])
}

/// Eight senders through one router, once with each setting.
fn testbed(
    lab: &mut Lab,
    settings: &[Setting],
    load: &str,
    rate: &str,
    time: Duration,
) -> Result<Vec<Run>, NetError> {
    let (sender, receiver) = (host("sender")?, host("receiver")?);
    let mut runs = Vec::new();
    for setting in settings {
        let what = format!("{load} load, {}", setting.title);
        let run = lab.step(&what, || {
            for host in [&sender, &receiver] {
                host.sysctl(&format!("net.ipv4.tcp_ecn={}", u8::from(setting.ecn)))?;
            }
            let keys = format!("buffer = \"1500k\"\n{}", setting.keys);
            let near = Port { reaches: &[2], ..port("kick-a", &sender, 1, &[1], "1gbit", "50ms", "") };
            let far = Port { reaches: &[1], ..port("kick-b", &receiver, 2, &[2], rate, "50ms", &keys) };
            let forwarder = Forwarder::start(&[near, far])?;
            let servers = Servers::start(&sender, &receiver, PORT)?;
            let words = ["--load", load, "--senders", "8"];
            let flows = servers.load(&sender, setting.schemes, &words, Some(time))?.rest(time + PATIENCE)?;
            Run::new(&flows, &forwarder.totals()?)
        })?;
        runs.push(Run { title: setting.title, colour: setting.colour, ..run });
    }
    results::write(&lab.options.args.out, &format!("kickass-{load}"), &runs)?;
    Ok(runs)
}

/// Two senders of long flows through two routers.
fn over_two_routers(rate: &str, size: &str, with_others: bool, time: Duration) -> Result<Run, NetError> {
    let (sender, middle, receiver) = (host("sender")?, host("middle")?, host("receiver")?);
    middle.sysctl("net.ipv4.ip_forward=1")?;
    let signals = "buffer = \"1500k\"\nkickass = {}";
    let access = Forwarder::start(&[
        Port { reaches: &[2], ..port("kick-a", &sender, 1, &[1], "1gbit", "5ms", "") },
        Port { reaches: &[1], ..port("kick-m", &middle, 3, &[2, 3], rate, "5ms", signals) },
    ])?;
    let _core = Forwarder::start(&[
        Port { reaches: &[2], ..port("kick-n", &middle, 4, &[1, 4], "1gbit", "20ms", "") },
        Port {
            reaches: &[1, 4],
            ..port("kick-b", &receiver, 2, &[2], "100mbit", "20ms", "buffer = \"625k\"")
        },
    ])?;
    let servers = Servers::start(&sender, &receiver, PORT)?;
    // They stop with the long flows.
    let words = ["--load", "light", "--senders", "32"];
    let _others = with_others.then(|| servers.load(&middle, "tcp", &words, None)).transpose()?;
    let words = ["--load", "light", "--size", size, "--senders", "2"];
    let flows = servers.load(&sender, "rc3-kickass", &words, Some(time))?.rest(time + PATIENCE)?;
    Run::new(&flows, &access.totals()?)
}

fn port<'a>(
    name: &'static str,
    host: &'a Namespace,
    network: u8,
    routes: &'a [u8],
    rate: &'a str,
    delay: &'a str,
    keys: &'a str,
) -> Port<'a> {
    Port { name, host, network, routes, reaches: &[], rate, delay, keys }
}

/// A host to which each flow is one that was never seen before.
fn host(role: &str) -> Result<Namespace, NetError> {
    let host = Namespace::new(role)?;
    host.sysctl("net.ipv4.tcp_no_metrics_save=1")?;
    Ok(host)
}

/// Receivers of rc3 and of kernel TCP at one address.
struct Servers {
    rc3: Server,
    _tcp: Server,
    address: SocketAddr,
}

impl Servers {
    fn start(sender: &Namespace, receiver: &Namespace, port: u16) -> Result<Self, NetError> {
        let place = Place { sender, receiver, address: SocketAddr::from((address(2), port)), mtu: None };
        let serve = |transport: Transport| {
            let scheme = Scheme::own(transport)?;
            scheme.serve(&place, &[])
        };
        Ok(Self { rc3: serve(Transport::Rc3)?, _tcp: serve(Transport::Tcp)?, address: place.address })
    }

    /// Starts senders.
    fn load(
        &self,
        host: &Namespace,
        schemes: &str,
        words: &[&str],
        time: Option<Duration>,
    ) -> Result<Process, NetError> {
        let time = time.map(|time| format!("--time={}", time_text(time)));
        let address = self.address.to_string();
        let mut all = vec!["load", &address, &self.rc3.certificate, "--schemes", schemes];
        all.extend(words.iter().copied().chain(time.as_deref()));
        let load = others::start(host, "load", &all)?;
        load.line()?;
        Ok(load)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_scheme_of_a_setting_exists() {
        let settings = ALL.iter().chain([&ALONE, &SHARED]);
        for name in settings.flat_map(|setting| setting.schemes.split(',')) {
            assert!(Transport::from_str(name, false).is_ok(), "{name}");
        }
    }
}
