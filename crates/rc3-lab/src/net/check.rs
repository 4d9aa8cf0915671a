//! What a host needs for the laboratory, and what it has.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use rc3_cli::output;

use super::{error::NetError, namespace, scheme::Scheme, site::Site, transport::Transport, urgency};

/// Something the laboratory uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// What.
    pub name: &'static str,
    /// What lacks without it; `None`: there is no laboratory without it.
    pub without: Option<&'static str>,
    /// Why it is not there; `None` if it is.
    pub missing: Option<String>,
    /// What to do then.
    pub hint: &'static str,
}

/// The program with QUIC implementations of others, which is a workspace of its own (`peers/`): the given one, or `rc3-peers`
/// beside this program, if there is one.
///
/// # Errors
/// If there is no such file as the given one.
pub fn peers(given: Option<&Path>) -> Result<Option<PathBuf>, NetError> {
    let Some(path) = given.map(Path::to_owned) else {
        let beside = std::env::current_exe()?.with_file_name("rc3-peers");
        return Ok(Some(beside).filter(|program| program.exists()));
    };
    match fs::metadata(&path) {
        Ok(_) => Ok(Some(path)),
        Err(source) => Err(NetError::File { path, source }),
    }
}

/// `rc3-lab net check`: prints what is missing and the schemes, and removes what killed laboratories have left.
///
/// # Errors
/// If the laboratory cannot run.
pub fn check(given: Option<&Path>) -> Result<(), NetError> {
    let peers = peers(given)?;
    let requirements = requirements(peers.as_deref());
    let mut text = String::new();
    for Requirement { name, without, missing, hint } in &requirements {
        let without =
            without.map_or_else(String::new, |without| format!("; without it there is no {without}"));
        // Writing to a string does not fail.
        let _ = match missing {
            None => writeln!(text, "ok       {name}"),
            Some(why) => writeln!(text, "missing  {name}: {why} ({hint}{without})"),
        };
    }
    let usable = require(&requirements);
    let removed = if usable.is_ok() { namespace::remove_left_over()? } else { Vec::new() };
    for name in &removed {
        let _ = writeln!(text, "removed  {name}, left over by a laboratory that is no longer running");
    }
    for scheme in Scheme::all(peers.as_deref()) {
        let _ = writeln!(text, "scheme   {:12} {}", scheme.name, scheme.version);
    }
    output::print(&text)?;
    usable
}

/// All requirements, in the order in which they depend on each other.
pub fn requirements(peers: Option<&Path>) -> Vec<Requirement> {
    let is_root = nix::unistd::geteuid().is_root();
    let site =
        if is_root { Site::new().map_err(|error| error.to_string()) } else { Err("needs root".to_owned()) };
    let htb = site.as_ref().map_err(Clone::clone).and_then(|site| {
        let made = site.sender.shell("tc qdisc add dev card root handle 1: htb default 10");
        made.map_err(|error| error.to_string())
    });
    let nft = site
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|site| site.sender.shell("nft add table ip nat").map_err(|error| error.to_string()));
    let has_tun = Path::new("/dev/net/tun").exists();
    let bbr = unless(Scheme::own(Transport::TcpBbr).is_ok(), "the kernel does not have it");
    let chrt = unless(urgency::has_real_time(), "chrt cannot give a real-time priority");
    let program = unless(peers.is_some(), "there is no rc3-peers beside this program");
    let hint = "install iproute2 and procps, use a kernel with CONFIG_NET_NS, CONFIG_VETH and CONFIG_IP_MULTIPLE_TABLES, \
                outside of a container";
    vec![
        needed("root", unless(is_root, "this is another user"), "start it with sudo"),
        needed("network namespaces", site.err(), hint),
        needed("TUN", unless(has_tun, "there is no /dev/net/tun"), "load the module tun"),
        needed("tc and HTB", htb.err(), "install iproute2, load the module sch_htb")
            .only_for("card as fast as the link: card, fig15, fig16"),
        needed("nft", nft.err(), "install nftables").only_for("NATs: nats, codes"),
        needed("BBR of the kernel", bbr, "load the module tcp_bbr").only_for("the scheme tcp-bbr"),
        needed("chrt", chrt, "install util-linux, start it as root")
            .only_for("WAN in time while other programs run"),
        needed("rc3-peers", program, "build peers/, see docs/LABORATORY.md")
            .only_for("QUIC implementations of others"),
    ]
}

fn needed(name: &'static str, missing: Option<String>, hint: &'static str) -> Requirement {
    Requirement { name, without: None, missing, hint }
}

impl Requirement {
    fn only_for(self, what: &'static str) -> Self {
        Self { without: Some(what), ..self }
    }
}

fn unless(is_there: bool, why: &str) -> Option<String> {
    (!is_there).then(|| why.to_owned())
}

/// Nothing, if the laboratory can run.
///
/// # Errors
/// What is missing.
pub fn require(requirements: &[Requirement]) -> Result<(), NetError> {
    let missing = requirements.iter().filter(|it| it.without.is_none() && it.missing.is_some());
    let missing: Vec<String> = missing.map(|requirement| requirement.name.to_owned()).collect();
    if missing.is_empty() { Ok(()) } else { Err(NetError::Missing(missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_typed_must_be_there() {
        let error = peers(Some(Path::new("/no/peers"))).unwrap_err();
        assert!(error.to_string().starts_with("/no/peers: "), "{error}");
        let here = std::env::current_exe().unwrap();
        assert_eq!(peers(Some(&here)).unwrap(), Some(here));
    }

    #[test]
    fn only_what_is_needed_stops_a_run() {
        let optional = needed("tc and HTB", Some("no".to_owned()), "install it").only_for("cards");
        assert!(require(std::slice::from_ref(&optional)).is_ok());
        let missing = needed("root", Some("this is another user".to_owned()), "sudo");
        let error = require(&[optional, missing, needed("ip", None, "")]).unwrap_err();
        assert_eq!(error.to_string(), "this host lacks root");
    }
}
