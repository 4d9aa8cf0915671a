//! The recipes of `docs/OPERATORS.md`, as an operator reads them: commands for the device `eth0` at `1gbit`.

use std::num::NonZero;

use rc3_text::units::rate_text;

use super::{error::NetError, namespace::Namespace};

const PAGE: &str = include_str!("../../../../docs/OPERATORS.md");
const DEVICE: &str = "eth0";
const RATE: &str = "1gbit";

/// Commands of a shell: all blocks of the page that have its name behind `sh`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Letters and dashes.
    pub name: String,
    commands: String,
}

impl Recipe {
    /// All of the page.
    pub fn all() -> Vec<Self> {
        let mut recipes: Vec<Self> = Vec::new();
        for block in PAGE.split("\n```sh ").skip(1) {
            let block = block.split("\n```").next().unwrap_or_default();
            let (names, commands) = block.split_once('\n').unwrap_or_default();
            for name in names.split_whitespace() {
                match recipes.iter_mut().find(|recipe| recipe.name == name) {
                    Some(recipe) => recipe.commands += &format!("\n{commands}"),
                    None => recipes.push(Self { name: name.to_owned(), commands: commands.to_owned() }),
                }
            }
        }
        recipes
    }

    /// The recipe of that name.
    ///
    /// # Errors
    /// If the page has none.
    pub fn named(name: &str) -> Result<Self, NetError> {
        let missing =
            || NetError::Process { what: name.to_owned(), why: "no recipe of docs/OPERATORS.md".to_owned() };
        Self::all().into_iter().find(|recipe| recipe.name == name).ok_or_else(missing)
    }

    /// Whether it makes a bottleneck, so that a queue forms.
    pub fn has_rate(&self) -> bool {
        self.commands.contains(RATE)
    }

    /// Runs it on a host, for this device at this rate in bits per second.
    ///
    /// # Errors
    /// If one of the commands fails.
    pub fn run(&self, host: &Namespace, device: &str, rate: NonZero<u64>) -> Result<(), NetError> {
        let commands = self.commands.replace(DEVICE, device).replace(RATE, &rate_text(rate.get()));
        host.shell(&commands).map(drop)
    }
}

/// Whether a recipe failed because the host lacks a program or its kernel a queue discipline.
pub fn is_lacking(error: &NetError) -> bool {
    let text = error.to_string();
    ["kind is unknown", "not found"].iter().any(|lack| text.contains(lack))
}
