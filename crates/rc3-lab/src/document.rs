//! A document of a few kinds of blocks, as Markdown and as HTML.

use std::{fmt::Write, fs, io, path::Path};

use pulldown_cmark::{Event, Options, Parser, Tag};
use rc3_picture::chart::Chart;

/// A document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// What is in it, in order.
    pub blocks: Vec<Block>,
}

/// A part of a document. Texts are plain: what Markdown or HTML would read as markup is escaped.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A heading below the title's.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A line for a shell.
    Command(String),
    /// A link in a paragraph of its own.
    Link {
        /// What it says.
        text: String,
        /// Where it leads, relative to the document.
        to: String,
    },
    /// A picture.
    Picture {
        /// The file, relative to the document.
        file: String,
        /// What it shows, for those who cannot see it.
        alt: String,
    },
    /// A table.
    Table(Table),
    /// A picture that [`Document::write`] draws, and the name of its files without the ending.
    Chart(String, Box<Chart>),
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns, and whether they hold numbers.
    pub head: Vec<(String, bool)>,
    /// The rows, as wide as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table; a name that begins with `#` is of a column of numbers.
    pub fn new<T: AsRef<str>>(head: impl IntoIterator<Item = T>) -> Self {
        let column = |name: T| match name.as_ref().strip_prefix('#') {
            Some(name) => (name.to_owned(), true),
            None => (name.as_ref().to_owned(), false),
        };
        Self { head: head.into_iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row that begins with this cell.
    pub fn row(&mut self, first: impl Into<String>, rest: impl IntoIterator<Item = String>) {
        self.rows.push(std::iter::once(first.into()).chain(rest).collect());
    }

    /// Adds a row: the head of each column, as in [`Self::new`], and its cell. All rows have the same heads.
    pub fn push(&mut self, cells: impl IntoIterator<Item = (&'static str, String)>) {
        let (head, cells): (Vec<&str>, _) = cells.into_iter().unzip();
        if self.rows.is_empty() {
            self.head = Self::new(&head).head;
        }
        self.rows.push(cells);
    }

    /// The same without columns in which every cell is empty.
    pub fn without_empty_columns(mut self) -> Self {
        for column in (0..self.head.len()).rev() {
            if self.rows.iter().all(|row| row[column].is_empty()) {
                self.head.remove(column);
                for row in &mut self.rows {
                    row.remove(column);
                }
            }
        }
        self
    }

    /// As Markdown, the dialect of GitHub.
    pub fn markdown(&self) -> String {
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let names = row(self.head.iter().map(|(name, _)| mark(name)).collect());
        let rules = self.head.iter().map(|(_, number)| if *number { "---:" } else { "---" });
        let rules = format!("|{}|\n", rules.collect::<Vec<_>>().join("|"));
        let rows = self.rows.iter().map(|cells| row(cells.iter().map(|cell| mark(cell)).collect()));
        [names, rules].into_iter().chain(rows).collect()
    }
}

impl Document {
    /// Nothing under a title.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), blocks: Vec::new() }
    }

    /// With another paragraph.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    /// With another table.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        self.blocks.push(Block::Table(table));
        self
    }

    /// With another picture, which [`Self::write`] draws.
    #[must_use]
    pub fn picture(mut self, stem: impl Into<String>, chart: Chart) -> Self {
        self.blocks.push(Block::Chart(stem.into(), Box::new(chart)));
        self
    }

    /// Its tables.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.blocks
            .iter()
            .filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None })
    }

    /// With all of another document under its title as a heading.
    #[must_use]
    pub fn section(mut self, section: Self) -> Self {
        self.blocks.push(Block::Heading(section.title));
        self.blocks.extend(section.blocks);
        self
    }

    /// Draws its pictures into a folder, and writes `report.md` and `report.html`.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        for block in &self.blocks {
            if let Block::Chart(stem, chart) = block {
                rc3_picture::write(chart, folder, stem)?;
            }
        }
        fs::write(folder.join("report.md"), self.markdown())?;
        fs::write(folder.join("report.html"), self.html())
    }

    /// As Markdown, the dialect of GitHub.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n", mark(&self.title));
        for block in &self.blocks {
            text.push('\n');
            match block {
                Block::Heading(heading) => line(&mut text, format_args!("## {}", mark(heading))),
                Block::Text(paragraph) => line(&mut text, format_args!("{}", mark(paragraph))),
                Block::Command(command) => line(&mut text, format_args!("```text\n{command}\n```")),
                Block::Link { text: says, to } => line(&mut text, format_args!("[{}]({to})", mark(says))),
                Block::Picture { file, alt } => line(&mut text, format_args!("![{}]({file})", mark(alt))),
                Block::Chart(stem, chart) => {
                    line(&mut text, format_args!("![{}]({stem}.svg)", mark(&chart.title)));
                }
                Block::Table(table) => text += &table.markdown(),
            }
        }
        text
    }

    /// As a page of HTML that loads nothing but the pictures beside it.
    pub fn html(&self) -> String {
        let text = self.markdown();
        let events = Parser::new_ext(&text, Options::ENABLE_TABLES).map(|event| match event {
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                // The other documents are there as pages, too.
                let dest_url = dest_url.replace(".md", ".html").into();
                Event::Start(Tag::Link { link_type, dest_url, title, id })
            }
            event => event,
        });
        let mut body = String::new();
        pulldown_cmark::html::push_html(&mut body, events);
        let title = self.title.replace('&', "&amp;").replace('<', "&lt;");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
        )
    }
}

const STYLE: &str = "\
body { font: 15px/1.5 Roboto, Helvetica, Arial, sans-serif; color: #202020; max-width: 62em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px; display: block; overflow-x: auto; }
th, td { padding: .25em .7em; border-bottom: 1px solid #e4e4e4; text-align: left; }
th { border-bottom: 2px solid #606060; }
td { font-variant-numeric: tabular-nums; }
pre { background: #f5f5f5; padding: .6em 1em; overflow-x: auto; }
img { max-width: 100%; height: auto; display: block; margin: 1em 0; }
";

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{what}");
}

/// Plain text as Markdown.
fn mark(text: &str) -> String {
    let mut marked = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '|' | '*' | '_' | '`' | '<' | '[' | ']' => marked.extend(['\\', character]),
            '\n' => marked.push(' '),
            _ => marked.push(character),
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let mut table = Table::new(["who", "#how much", "why"]);
        table.rows.push(vec!["a|b".to_owned(), "3".to_owned(), String::new()]);
        Document {
            title: "A & B".to_owned(),
            blocks: vec![
                Block::Heading("One <two>".to_owned()),
                Block::Text("x * y".to_owned()),
                Block::Command("rc3-lab sim run a --set a=\"b\"".to_owned()),
                Block::Link { text: "more".to_owned(), to: "more/report.md".to_owned() },
                Block::Picture { file: "a.svg".to_owned(), alt: "a line".to_owned() },
                Block::Table(table.without_empty_columns()),
            ],
        }
    }

    #[test]
    fn markdown_escapes_what_is_not_markup() {
        let expected = "\
# A & B

## One \\<two>

x \\* y

```text
rc3-lab sim run a --set a=\"b\"
```

[more](more/report.md)

![a line](a.svg)

| who | how much |
|---|---:|
| a\\|b | 3 |
";
        assert_eq!(document().markdown(), expected);
    }

    #[test]
    fn html_is_well_formed_and_says_the_same() {
        let text = document().html();
        // Tags that HTML leaves open are closed for the parser of XML.
        let closed = text.lines().map(|line| match line.starts_with("<meta") {
            true => line.replace("\">", "\"/>"),
            false => line.to_owned(),
        });
        let text = closed.collect::<Vec<_>>().join("\n").replace("<!doctype html>", "");
        let page = roxmltree::Document::parse(&text).unwrap();
        let words: String = page.descendants().filter_map(|node| node.text()).collect();
        for word in ["A & B", "One <two>", "x * y", "a=\"b\"", "how much", "a|b"] {
            assert!(words.contains(word), "{word} is missing in {words}");
        }
        let link = page.descendants().find_map(|node| node.attribute("href"));
        assert_eq!(link, Some("more/report.html"));
    }
}
