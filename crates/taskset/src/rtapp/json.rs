//! JSON as rt-app's users write it: with comments, commas behind the last member, members of the same
//! name in their order, and names without a value. Total: any text ends in a value or a fault.

use crate::fault::Fault;

/// How deep values may be nested.
const DEEPEST: usize = 32;

/// A value, and its line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Value {
    pub line: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Object(Vec<Member>),
    Array(Vec<Value>),
    Text(String),
    /// As it is written.
    Number(String),
    Word(Word),
    /// Of a name without a value.
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    True,
    False,
    Null,
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub line: usize,
    pub name: String,
    pub value: Value,
}

pub(super) fn parse(text: &str) -> Result<Value, Fault> {
    let mut reader = Reader {
        rest: text,
        line: 1,
    };
    let value = reader.value(0)?;
    reader.skip()?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.refuse("something behind the end: expected one object")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Reader<'a> {
    fn refuse(&self, why: &str) -> Fault {
        Fault::new(self.line, why)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn pass(&mut self, bytes: usize) -> &'a str {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.rest = rest;
        passed
    }

    /// White space and comments.
    fn skip(&mut self) -> Result<(), Fault> {
        loop {
            let blank = self.rest.trim_start().len();
            self.pass(self.rest.len() - blank);
            if self.rest.starts_with("//") {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.pass(end);
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest[2..].find("*/") else {
                    return Err(self.refuse("a comment without end: expected */"));
                };
                self.pass(end + 4);
            } else {
                return Ok(());
            }
        }
    }

    fn take(&mut self, wanted: char) -> Result<bool, Fault> {
        self.skip()?;
        let there = self.peek() == Some(wanted);
        if there {
            self.pass(wanted.len_utf8());
        }
        Ok(there)
    }

    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        self.skip()?;
        if depth > DEEPEST {
            return Err(self.refuse("nested too deep"));
        }
        let line = self.line;
        let kind = match self.peek() {
            Some('{') => {
                self.pass(1);
                Kind::Object(self.members(depth)?)
            }
            Some('[') => {
                self.pass(1);
                Kind::Array(self.elements(depth)?)
            }
            Some('"') => Kind::Text(self.text()?),
            Some(c) if c == '-' || c.is_ascii_digit() => {
                let in_number = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
                let end = self.rest.find(|c| !in_number(c)).unwrap_or(self.rest.len());
                Kind::Number(self.pass(end).to_owned())
            }
            Some(c) if c.is_ascii_alphabetic() => {
                let end = self.rest.find(|c: char| !c.is_ascii_alphabetic());
                let word = self.pass(end.unwrap_or(self.rest.len()));
                match word {
                    "true" | "True" => Kind::Word(Word::True),
                    "false" | "False" => Kind::Word(Word::False),
                    "null" => Kind::Word(Word::Null),
                    _ => {
                        let why = format!("'{word}': expected a value, text in quotes");
                        return Err(Fault::new(line, why));
                    }
                }
            }
            Some(c) => return Err(self.refuse(&format!("'{c}': expected a value"))),
            None => return Err(self.refuse("the text ends: expected a value")),
        };
        Ok(Value { line, kind })
    }

    fn members(&mut self, depth: usize) -> Result<Vec<Member>, Fault> {
        let mut members = Vec::new();
        loop {
            if self.take('}')? {
                return Ok(members);
            }
            let line = self.line;
            if self.peek() != Some('"') {
                return Err(self.refuse("expected a name in quotes, or }"));
            }
            let name = self.text()?;
            let value = if self.take(':')? {
                self.value(depth + 1)?
            } else {
                Value {
                    line,
                    kind: Kind::Absent,
                }
            };
            members.push(Member { line, name, value });
            if !self.take(',')? && self.peek() != Some('}') {
                return Err(self.refuse("expected , or } behind a member"));
            }
        }
    }

    fn elements(&mut self, depth: usize) -> Result<Vec<Value>, Fault> {
        let mut elements = Vec::new();
        loop {
            if self.take(']')? {
                return Ok(elements);
            }
            elements.push(self.value(depth + 1)?);
            if !self.take(',')? && self.peek() != Some(']') {
                return Err(self.refuse("expected , or ] behind an element"));
            }
        }
    }

    /// Text in quotes. Escapes of letters beyond ASCII aren't needed for names.
    fn text(&mut self) -> Result<String, Fault> {
        let line = self.line;
        self.pass(1);
        let mut text = String::new();
        loop {
            let Some(c) = self.peek() else {
                return Err(Fault::new(line, "text without its closing quote"));
            };
            self.pass(c.len_utf8());
            match c {
                '"' => return Ok(text),
                '\n' => return Err(Fault::new(line, "text without its closing quote")),
                '\\' => {
                    let escaped = self.peek().unwrap_or('\\');
                    self.pass(self.peek().map_or(0, char::len_utf8));
                    text.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'u' => return Err(Fault::new(line, "\\u in text: expected the letter")),
                        other => other,
                    });
                }
                other => text.push(other),
            }
        }
    }
}
