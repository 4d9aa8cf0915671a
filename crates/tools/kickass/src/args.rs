//! The command line of `kickass`.

use std::path::PathBuf;
#[cfg(target_os = "linux")]
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use kickass::Rate;
use rc3_cli::exit::CommandExit;
use rc3_text::units::{UnitError, parse_rate};

/// Routers signal rates in the lengths of IP fragments: convert codes, run a forwarder, test paths
#[derive(Debug, Clone, Parser)]
#[command(name = "kickass", version, after_help = CommandExit::HELP, max_term_width = 100)]
pub struct KickassArgs {
    /// The command.
    #[command(subcommand)]
    pub command: KickassCommand,
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum KickassCommand {
    /// Convert rates to lengths of leading fragments
    Encode(EncodeArgs),
    /// Convert lengths to the rate or round trip they signal
    Decode(DecodeArgs),
    /// Forward packets between TUN devices, over links with rate, delay, queue and signals
    #[cfg(target_os = "linux")]
    Forward(ForwardArgs),
    /// Measure which lengths of packets and fragments survive a path
    #[cfg(target_os = "linux")]
    Probe(ProbeArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write one per command
    Man {
        /// Write `kickass.1`, `kickass-forward.1` and so on into this directory
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

/// `kickass forward`
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
When started as root, it switches to the configured user (nobody by default) once its devices are open. SIGHUP \
reloads the file, which that user must be able to read; SIGINT and SIGTERM stop it.")]
pub struct ForwardArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Check the configuration, report errors, and exit
    #[arg(long)]
    pub check: bool,
    /// Print one JSON object per event and no other output
    #[arg(long)]
    pub json: bool,
}

/// `kickass encode`
#[derive(Debug, Clone, Args)]
pub struct EncodeArgs {
    /// Rates, such as 2.34mbit
    #[arg(required = true, value_name = "RATE", value_parser = read_rate)]
    pub rates: Vec<Rate>,
    /// Print one JSON object per rate and no other output
    #[arg(long)]
    pub json: bool,
}

/// `kickass decode`
#[derive(Debug, Clone, Args)]
pub struct DecodeArgs {
    /// Bytes: payload of a leading fragment, or a whole RTT indicator
    #[arg(required = true, value_name = "BYTES")]
    pub lengths: Vec<usize>,
    /// Print one JSON object per length and no other output
    #[arg(long)]
    pub json: bool,
}

/// `kickass probe`
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Run kickass probe --listen on the other host first, and stop the signals of routers on the path: they shorten \
leading fragments. Each code is tried as the length of a whole packet with Don't \
Fragment and of a leading fragment; in IPv6 also of a whole packet with a Fragment header. Fragments need \
CAP_NET_RAW; with it the listener also reports whether leading fragments kept their lengths. The picture's format follows from its name: .svg or .png.")]
pub struct ProbeArgs {
    /// Host that listens: IP address, with or without a port
    #[arg(value_name = "TARGET", value_parser = parse_target, required_unless_present = "listen")]
    pub target: Option<SocketAddr>,
    /// Answer probes from other hosts
    #[arg(long, conflicts_with_all = ["target", "tries", "interval", "json", "picture"])]
    pub listen: bool,
    /// Address to listen at; all addresses by default
    #[arg(long, value_name = "ADDR", value_parser = parse_target, requires = "listen")]
    pub bind: Option<SocketAddr>,
    /// How often each length is tried
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub tries: u8,
    /// Time between packets
    #[arg(long, default_value = "5ms", value_name = "TIME", value_parser = rc3_text::units::parse_time)]
    pub interval: Duration,
    /// Print one JSON object and no other output
    #[arg(long)]
    pub json: bool,
    /// Draw a chart of survival over length into a file
    #[arg(long, value_name = "FILE", value_parser = parse_picture)]
    pub picture: Option<PathBuf>,
}

/// Default port of `kickass probe --listen`.
#[cfg(target_os = "linux")]
pub const PROBE_PORT: u16 = 4484;

#[cfg(target_os = "linux")]
fn parse_target(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().or_else(|_| text.parse().map(|ip: IpAddr| SocketAddr::new(ip, PROBE_PORT)));
    address.map_err(|_| {
        format!(
            "`{text}` is not an IP address, write for example 192.0.2.1, 192.0.2.1:4484 or [2001:db8::1]:4484"
        )
    })
}

#[cfg(target_os = "linux")]
fn parse_picture(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match rc3_picture::Format::of(&path) {
        Some(_) => Ok(path),
        None => Err("the name of a picture must end in .svg or .png".to_owned()),
    }
}

fn read_rate(text: &str) -> Result<Rate, UnitError> {
    parse_rate(text).map(Rate::from)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        KickassArgs::command().debug_assert();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_probe_has_a_target_or_listens() {
        let probe = |words: &[&str]| {
            let words = [&["kickass", "probe"], words].concat();
            match KickassArgs::try_parse_from(words).map(|args| args.command) {
                Ok(KickassCommand::Probe(args)) => Ok((args.target, args.bind)),
                other => Err(other.map(drop)),
            }
        };
        assert_eq!(probe(&["192.0.2.1"]).unwrap(), ("192.0.2.1:4484".parse().ok(), None));
        assert_eq!(probe(&["192.0.2.1:5", "--tries", "1"]).unwrap(), ("192.0.2.1:5".parse().ok(), None));
        assert_eq!(probe(&["2001:db8::1"]).unwrap(), ("[2001:db8::1]:4484".parse().ok(), None));
        assert_eq!(probe(&["[2001:db8::1]:5"]).unwrap(), ("[2001:db8::1]:5".parse().ok(), None));
        let bound = probe(&["--listen", "--bind", "10.0.0.1:7"]).unwrap();
        assert_eq!(bound, (None, "10.0.0.1:7".parse().ok()));
        for words in [&[][..], &["--listen", "192.0.2.1"], &["example"], &["192.0.2.1", "--picture", "a.gif"]]
        {
            assert!(probe(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn rates_are_read_as_rc3_reads_them() {
        let words = ["kickass", "encode", "2.34mbit", "1gbit/s"];
        let Ok(KickassArgs { command: KickassCommand::Encode(args) }) = KickassArgs::try_parse_from(words)
        else {
            panic!("not understood")
        };
        assert_eq!(
            args.rates.iter().map(|rate| rate.bits_per_second()).collect::<Vec<_>>(),
            [2_340_000, 1_000_000_000]
        );
        assert!(KickassArgs::try_parse_from(["kickass", "encode", "10Mbps"]).is_err());
        assert!(KickassArgs::try_parse_from(["kickass", "decode"]).is_err());
    }
}
