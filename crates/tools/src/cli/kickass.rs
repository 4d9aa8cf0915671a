//! The command line of `kickass`.

#[cfg(target_os = "linux")]
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use kickass::Rate;

use crate::units::parse_rate;

/// Rates from routers to ends in the lengths of IP fragments: codes and a forwarder.
#[derive(Debug, Clone, Parser)]
#[command(name = "kickass", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct KickassArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: KickassCommand,
}

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  failed
    2  wrong usage";

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum KickassCommand {
    /// Say how long the leading fragment is that tells a rate
    Encode(EncodeArgs),
    /// Say what a length tells: a rate or a round trip
    Decode(DecodeArgs),
    /// Forward packets between TUN devices, over links with rate, delay, queue and signals
    #[cfg(target_os = "linux")]
    Forward(ForwardArgs),
}

/// `kickass forward`
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Started as root, it becomes the user of the configuration, or nobody, once its devices are open. SIGHUP has \
the file read again, so it must be readable for that user; SIGINT and SIGTERM end it.")]
pub struct ForwardArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Read the configuration, say what is wrong with it, and end
    #[arg(long)]
    pub check: bool,
    /// Print one JSON object per event, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `kickass encode`
#[derive(Debug, Clone, Args)]
pub struct EncodeArgs {
    /// Rates, such as 2.34mbit
    #[arg(required = true, value_name = "RATE", value_parser = parse_kickass_rate)]
    pub rates: Vec<Rate>,
    /// Print one JSON object per rate and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `kickass decode`
#[derive(Debug, Clone, Args)]
pub struct DecodeArgs {
    /// Bytes: payload of a leading fragment, or all of an RTT indicator
    #[arg(required = true, value_name = "BYTES")]
    pub lengths: Vec<usize>,
    /// Print one JSON object per length and nothing else
    #[arg(long)]
    pub json: bool,
}

fn parse_kickass_rate(text: &str) -> Result<Rate, String> {
    let rate = parse_rate(text).map_err(|error| error.to_string())?;
    Rate::from_bits_per_second(rate.bits_per_second() as f64).ok_or_else(|| format!("`{text}` is not a rate"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        KickassArgs::command().debug_assert();
    }

    #[test]
    fn rates_are_read_as_rc3_reads_them() {
        let words = ["kickass", "encode", "2.34mbit", "1gbit/s"];
        let Ok(KickassArgs { command: KickassCommand::Encode(args) }) = KickassArgs::try_parse_from(words)
        else {
            panic!("not understood")
        };
        assert_eq!(args.rates.iter().map(|rate| rate.bits_per_second()).collect::<Vec<_>>(), [2.34e6, 1e9]);
        assert!(KickassArgs::try_parse_from(["kickass", "encode", "10Mbps"]).is_err());
        assert!(KickassArgs::try_parse_from(["kickass", "decode"]).is_err());
    }
}
