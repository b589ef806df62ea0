//! The short form of a schema, which a reader of a change can compare: `{name: text, count?: u64}`.

use serde_json::{Map, Value};

/// A section for each schema. A type that an earlier section has in the same form is left out.
pub fn sections(schemas: &[(String, Value)]) -> Vec<String> {
    let mut known = Vec::new();
    let mut sections = Vec::new();
    for (name, schema) in schemas {
        let (title, description) = (text(schema, "title"), text(schema, "description"));
        let mut section = format!("== {name}.schema.json ==\n");
        section.push_str(&folded(&format!("{title}: {description}"), ""));
        section.push('\n');
        section.push_str(&folded(
            &format!("document = {}", form(schema).text),
            "    ",
        ));
        for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
            let line = format!("{name} = {}", form(definition).text);
            if !known.contains(&line) {
                section.push_str(&folded(&line, "    "));
                known.push(line);
            }
        }
        sections.push(section);
    }
    sections
}

fn text<'s>(schema: &'s Value, key: &str) -> &'s str {
    schema[key].as_str().unwrap_or_default()
}

/// A blank at which no line ends.
const TIED: char = '\u{1}';

/// Lines of at most 100 characters, where there are blanks; all but the first begin with an indent.
fn folded(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if line.len() + word.len() >= 100 && !line.trim().is_empty() {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = indent.to_owned();
        }
        line.push_str(word);
        line.push(' ');
    }
    lines.push_str(line.trim_end());
    lines.push('\n');
    lines.replace(TIED, " ")
}

struct Form {
    text: String,
    /// In brackets within another form.
    is_several: bool,
}

impl Form {
    fn one(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_several: false,
        }
    }

    fn joined(forms: Vec<Self>, between: &str) -> Self {
        if forms.len() == 1 {
            return forms.into_iter().next().expect("one");
        }
        let texts: Vec<String> = forms.iter().map(Self::tight).collect();
        Self {
            text: texts.join(between),
            is_several: true,
        }
    }

    fn tight(&self) -> String {
        if self.is_several {
            format!("({})", self.text)
        } else {
            self.text.clone()
        }
    }

    fn or_null(&self) -> Self {
        Self::one(format!("{}?", self.tight()))
    }
}

/// Everything that the schema demands is in its form: a keyword that this doesn't know ends the test.
fn form(schema: &Value) -> Form {
    let Value::Object(schema) = schema else {
        assert_eq!(*schema, Value::Bool(true), "a schema");
        return Form::one("any");
    };
    let mut left = schema.clone();
    for key in ["title", "description", "$schema", "$defs", "default"] {
        left.remove(key);
    }
    let mut parts = Vec::new();
    if let Some(reference) = left.remove("$ref") {
        let name = reference.as_str().and_then(|it| it.rsplit('/').next());
        parts.push(Form::one(name.expect("a name")));
    }
    if let Some(value) = left.remove("const") {
        // They follow from the value.
        for key in ["type", "format", "minimum", "maximum"] {
            left.remove(key);
        }
        parts.push(Form::one(value.to_string()));
    }
    if let Some(values) = left.remove("enum") {
        let values = values.as_array().expect("a list").iter();
        let values = values.map(|value| Form::one(value.to_string())).collect();
        left.remove("type");
        parts.push(Form::joined(values, " | "));
    }
    if let Some(kind) = left.remove("type") {
        parts.push(typed(&kind, &mut left));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = left.remove(key) {
            let options = options.as_array().expect("a list");
            parts.push(any_of(options));
        }
    }
    assert!(
        left.is_empty(),
        "crates/taskset/tests/schema/short.rs lacks {left:?}"
    );
    assert!(!parts.is_empty(), "{schema:?}");
    Form::joined(parts, " & ")
}

fn any_of(options: &[Value]) -> Form {
    let mut forms: Vec<Form> = options.iter().map(form).collect();
    if forms.last().is_some_and(|last| last.text == "null") {
        forms.pop();
        return Form::joined(forms, " | ").or_null();
    }
    Form::joined(forms, " | ")
}

fn typed(kind: &Value, left: &mut Map<String, Value>) -> Form {
    if let Value::Array(kinds) = kind {
        let [kind, null] = &kinds[..] else {
            panic!("{kinds:?}")
        };
        assert_eq!(null, "null");
        return typed(kind, left).or_null();
    }
    match kind.as_str().expect("a type") {
        "string" => Form::one("text"),
        "boolean" => Form::one("bool"),
        "null" => Form::one("null"),
        "integer" | "number" => Form::one(number(left)),
        "array" => array(left),
        "object" => Form::one(object(left)),
        other => panic!("a type {other}"),
    }
}

/// `u8`, `f64 > 0`: bounds that follow from the type are left out.
fn number(left: &mut Map<String, Value>) -> String {
    let format = left.remove("format").expect("a number has a format");
    let mut text = match format.as_str().expect("text") {
        "double" => "f64".to_owned(),
        format => {
            let (letter, bits) = match format.strip_prefix("uint") {
                Some(bits) => ("u", bits),
                None => ("i", format.strip_prefix("int").expect("an integer")),
            };
            format!("{letter}{}", if bits.is_empty() { "size" } else { bits })
        }
    };
    let kind = text.clone();
    for (key, sign) in [
        ("minimum", ">="),
        ("maximum", "<="),
        ("exclusiveMinimum", ">"),
        ("exclusiveMaximum", "<"),
    ] {
        let Some(bound) = left.remove(key) else {
            continue;
        };
        let follows = match (key, kind.as_str()) {
            ("minimum", kind) if kind.starts_with('u') => bound == 0,
            ("minimum", "i8") => bound == i8::MIN,
            ("maximum", "i8") => bound == i8::MAX,
            ("maximum", "u8") => bound == u8::MAX,
            ("maximum", "u16") => bound == u16::MAX,
            _ => false,
        };
        if !follows {
            text.push_str(&format!("{TIED}{sign}{TIED}{bound}"));
        }
    }
    text
}

/// `[text]`, `[u64; 2]`, or `[u64, text]` of which each place has its form.
fn array(left: &mut Map<String, Value>) -> Form {
    let bounds = ["minItems", "maxItems"].map(|key| left.remove(key));
    if let Some(items) = left.remove("prefixItems") {
        let items = items.as_array().expect("a list");
        let length = Some(Value::from(items.len()));
        assert_eq!(bounds, [length.clone(), length], "{items:?}");
        let forms: Vec<String> = items.iter().map(|item| form(item).text).collect();
        return Form::one(format!("[{}]", forms.join(", ")));
    }
    let item = left
        .remove("items")
        .map_or(Form::one("any"), |it| form(&it));
    let length = match bounds {
        [None, None] => String::new(),
        [Some(least), Some(most)] if least == most => format!("; {least}"),
        [Some(least), None] => format!("; >= {least}"),
        [None, Some(most)] => format!("; <= {most}"),
        [Some(least), Some(most)] => format!("; {least} to {most}"),
    };
    Form::one(format!("[{}{length}]", item.text))
}

/// `name?` may be absent, `name = 0` too: then it is 0. `..` stands for other fields.
fn object(left: &mut Map<String, Value>) -> String {
    let required = left.remove("required").unwrap_or_default();
    let required: Vec<&Value> = required.as_array().into_iter().flatten().collect();
    let properties = left.remove("properties").unwrap_or_default();
    let mut fields = Vec::new();
    for (name, rule) in properties.as_object().into_iter().flatten() {
        let optional = !required.iter().any(|it| *it == name);
        let mut field = format!(
            "{name}{}:{TIED}{}",
            if optional { "?" } else { "" },
            form(rule).text
        );
        match rule.get("default") {
            None | Some(Value::Null) => {}
            Some(value) => field.push_str(&format!("{TIED}={TIED}{value}")),
        }
        fields.push(field);
    }
    for name in required {
        let name = name.as_str().expect("a name");
        assert!(properties.get(name).is_some(), "{name} has no form");
    }
    match left.remove("additionalProperties") {
        None => {}
        Some(Value::Bool(false)) => return format!("only{TIED}{{{}}}", fields.join(", ")),
        Some(rule) => fields.push(format!("*:{TIED}{}", form(&rule).text)),
    }
    format!("{{{}}}", fields.join(", "))
}
