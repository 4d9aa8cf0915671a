//! Measures how long keystrokes take to come back, for `benches/tunnel.sh`.
//!
//! `keystrokes serve ECHO SINK` runs two TCP servers, `keystrokes echo SECONDS COUNT ADDRESS` and `keystrokes echo
//! SECONDS COUNT -- COMMAND` send single bytes to the echo server over TCP or over a command's standard input and output,
//! and measure after SECONDS; `keystrokes bulk SECONDS
//! ADDRESS` fills a connection to the sink.

use std::{
    io::{self, Error, Read, Write},
    net::{TcpListener, TcpStream},
    num::ParseIntError,
    process::{Command, ExitCode, Stdio},
    str::FromStr,
    thread,
    time::{Duration, Instant},
};

/// Time between the echo of a keystroke and the next, as of a fast typist.
const PAUSE: Duration = Duration::from_millis(50);
/// A command that has not ended this long after its standard input is killed.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["serve", echo, sink] => serve(echo, sink),
        ["echo", seconds, count, "--", program, arguments @ ..] => {
            Plan::of(seconds, count).and_then(|plan| {
                let mut command = Command::new(program);
                through_command(plan, command.args(arguments))
            })
        }
        ["echo", seconds, count, address] => Plan::of(seconds, count).and_then(|plan| {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            plan.strokes(&mut &stream, &mut &stream)
        }),
        ["bulk", seconds, address] => number(seconds).and_then(|seconds| bulk(seconds, address)),
        _ => Err(Error::other("see the top of keystrokes.rs")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "keystrokes: {error}");
            ExitCode::FAILURE
        }
    }
}

fn number<N: FromStr<Err = ParseIntError>>(word: &str) -> io::Result<N> {
    word.parse().map_err(Error::other)
}

fn serve(echo: &str, sink: &str) -> io::Result<()> {
    let (echo, sink) = (TcpListener::bind(echo)?, TcpListener::bind(sink)?);
    thread::spawn(move || {
        for stream in sink.incoming().flatten() {
            thread::spawn(move || io::copy(&mut &stream, &mut io::sink()));
        }
    });
    for stream in echo.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        thread::spawn(move || io::copy(&mut &stream, &mut &stream));
    }
    Ok(())
}

fn through_command(plan: Plan, command: &mut Command) -> io::Result<()> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::other("no pipes"));
    };
    let measured = plan.strokes(&mut output, &mut input);
    // Closing its standard input ends the command, unless it waits for connections that it forwards.
    drop((input, output));
    let until = Instant::now() + ENDS_WITHIN;
    while measured.is_ok() && Instant::now() < until {
        if child.try_wait()?.is_some() {
            return measured;
        }
        thread::sleep(PAUSE);
    }
    child.kill()?;
    child.wait()?;
    measured
}

/// Which keystrokes count.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Those before are only typed.
    after: Duration,
    count: usize,
}

impl Plan {
    fn of(seconds: &str, count: &str) -> io::Result<Self> {
        Ok(Self { after: Duration::from_secs(number(seconds)?), count: number(count)? })
    }

    /// Prints the median and the 95th percentile in milliseconds.
    fn strokes(self, reader: &mut impl Read, writer: &mut impl Write) -> io::Result<()> {
        let start = Instant::now();
        let mut times = Vec::with_capacity(self.count);
        while times.len() < self.count {
            let began = Instant::now();
            writer.write_all(b"k")?;
            writer.flush()?;
            reader.read_exact(&mut [0])?;
            if start.elapsed() >= self.after {
                times.push(began.elapsed());
            }
            thread::sleep(PAUSE);
        }
        times.sort();
        let rank = |per_cent: usize| {
            times.get(self.count * per_cent / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        writeln!(io::stdout(), "{:8.1} {:8.1}", rank(50), rank(95))
    }
}

fn bulk(seconds: u64, address: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let block = vec![0; 64 << 10];
    while Instant::now() < until {
        stream.write_all(&block)?;
    }
    Ok(())
}
