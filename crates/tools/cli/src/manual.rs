//! Completions and manual pages, from the same definitions as `--help`.

use std::{fs, io, path::Path};

use clap::Command;
use clap_complete::Shell;

use crate::output;

/// Prints completions.
///
/// # Errors
/// When standard output cannot be written.
pub fn complete(mut command: Command, shell: Shell) -> io::Result<()> {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// Writes all manual pages into a directory, or the main one to standard output.
///
/// # Errors
/// When they cannot be written.
pub fn write(command: Command, directory: Option<&Path>) -> io::Result<()> {
    match directory {
        Some(directory) => {
            fs::create_dir_all(directory)?;
            clap_mangen::generate_to(command, directory)
        }
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(command).render(&mut text)?;
            output::print(&String::from_utf8_lossy(&text))
        }
    }
}
