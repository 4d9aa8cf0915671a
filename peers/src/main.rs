//! QUIC implementations of others, for `rc3-lab net`: each a server and a client over its public API with default settings.
//!
//! The protocol between these and this program is the one that their own schemes follow. `--mtu MTU` allows packets of that
//! length:
//!
//! - `rc3-peers list` prints a line for each: its name and its version.
//! - `rc3-peers serve NAME ADDRESS` prints its certificate in hexadecimal, and serves until standard input ends. A stream whose
//!   first byte is 1 is sent back. To another one that has ended it answers with two numbers as text: nanoseconds of the
//!   monotonic clock when the last byte was there, and CPU seconds since the connection was open.
//! - `rc3-peers time NAME ADDRESS CERTIFICATE BYTES CONNECTIONS` sends one stream over each of so many new connections, and
//!   prints a line of JSON for each.
//! - `rc3-peers ask NAME ADDRESS CERTIFICATE COUNT BYTES [--new-connections]` exchanges so many bytes, so often, and prints the
//!   microseconds of each exchange in one line.
#![forbid(unsafe_code)]

mod clock;
mod s2n;

use std::{error::Error, io, process::ExitCode, thread};

/// What any part of this program may end with.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The name for which the certificate is.
const HOST: &str = "localhost";
/// What one write hands over, in bytes.
const BLOCK: usize = 1 << 20;

/// First byte of a stream that is sent back.
const ECHO: u8 = 1;
/// Longer streams are not sent back, in bytes.
const ECHO_MAX: usize = 4 << 20;

/// Names, which are those of packages.
const PEERS: [&str; 1] = ["s2n-quic"];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "rc3-peers: {error}\nhint: this program is started by rc3-lab net, see docs/LABORATORY.md"
            );
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let words: Vec<&str> = words.iter().copied().take_while(|word| !word.starts_with("--")).collect();
    match words[..] {
        ["list"] => {
            for peer in PEERS {
                println!("{peer} {}", version(peer).unwrap_or("of an unknown version"));
            }
            Ok(())
        }
        ["serve", "s2n-quic", address] => {
            end_with_input();
            s2n::serve(address.parse()?, options.mtu)
        }
        ["time", "s2n-quic", address, certificate, bytes, connections] => {
            s2n::time(address.parse()?, certificate, options.mtu, bytes.parse()?, connections.parse()?)
        }
        ["ask", "s2n-quic", address, certificate, count, bytes] => {
            s2n::ask(address.parse()?, certificate, options, count.parse()?, bytes.parse()?)
        }
        _ => Err("unknown words on the command line".into()),
    }
}

/// What follows the words of a command.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    /// The longest IP packet, in bytes.
    mtu: Option<u16>,
    new_connections: bool,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter().skip_while(|word| !word.starts_with("--"));
        while let Some(&word) = words.next() {
            match word {
                "--mtu" => options.mtu = Some(words.next().ok_or("--mtu needs a number")?.parse()?),
                "--new-connections" => options.new_connections = true,
                _ => return Err(format!("{word} is no option").into()),
            }
        }
        Ok(options)
    }
}

/// The version of a package in Cargo.lock.
fn version(package: &str) -> Option<&'static str> {
    let mut lines = include_str!("../Cargo.lock").lines();
    let name = format!("name = \"{package}\"");
    lines.find(|line| *line == name)?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// Ends this process with its standard input: nobody is left to end it otherwise.
fn end_with_input() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
}
