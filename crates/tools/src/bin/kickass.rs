//! The `kickass` command: runs what the command line means, and turns the outcome into an exit code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use rc3_tools::{
    cli::{
        exit::Exit,
        kickass::{DecodeArgs, EncodeArgs, KickassArgs, KickassCommand},
        output,
    },
    codes::{self, CodeError},
};
use serde::Serialize;

const NAME: &str = "kickass";

fn main() -> ExitCode {
    // Usage errors end here, with code 2.
    let exit = match KickassArgs::parse().command {
        KickassCommand::Encode(EncodeArgs { rates, json }) => {
            tell(rates.into_iter().map(codes::encode).collect(), json, codes::encoded_text)
        }
        KickassCommand::Decode(DecodeArgs { lengths, json }) => {
            tell(lengths.into_iter().map(codes::decode).collect(), json, codes::decoded_text)
        }
    };
    exit.into()
}

/// Prints what was found out, as words or as JSON.
fn tell<T: Serialize>(found: Result<Vec<T>, CodeError>, json: bool, words: fn(&[T]) -> String) -> Exit {
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            output::complain_as(NAME, &error, error.hint());
            return Exit::Failure;
        }
    };
    let text = if json { json_lines(&found) } else { Ok(words(&found)) };
    match text.map_err(Into::into).and_then(|text| output::print(&text)) {
        Ok(()) => Exit::Success,
        Err(error) => {
            output::complain_as(NAME, &error, "check the reader of the output");
            Exit::Failure
        }
    }
}

fn json_lines<T: Serialize>(all: &[T]) -> serde_json::Result<String> {
    all.iter().map(|one| Ok(serde_json::to_string(one)? + "\n")).collect()
}
