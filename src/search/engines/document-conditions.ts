/** Conditions on the text of a document, as SQL over a row of `documents`. */
import { type RawBuilder, sql } from 'kysely'
import type { SearchClause, SearchField } from '../../ports/search-engine.ts'
import { anySpace } from '../highlight/substrings.ts'
import { normalizeText, tokenize } from '../query/tokenizer.ts'

type Test = RawBuilder<boolean>

/** Number of characters of the content that are searched for a value without words. */
const maxContent = 100_000
/** The beginning of the content. Short contents skip left(), which decompresses the content and counts its characters. */
const beginning = sql`case when octet_length(documents.content) <= ${sql.lit(maxContent)} then documents.content else left(documents.content, ${sql.lit(maxContent)}) end`
const textFields = ['title', 'filename', 'labels', 'content'] as const

/** Tests a field for a clause; never NULL. `ofContent`: test of the content. Default: its beginning. */
export function test(clause: SearchClause, ofContent: Test = answers(beginning, clause)): Test {
  const { field } = clause
  if (field === 'any') {
    const each = textFields.map((one) => test({ ...clause, field: one }, ofContent))
    return sql`(${sql.join(each, sql` or `)})`
  }
  if (field === 'content') return ofContent
  if (field === 'labels')
    return sql`exists (select from document_labels join labels on labels.id = label_id
      where document_labels.document_id = documents.id and ${answers(sql`labels.name`, clause)})`
  if (isMetadata(field)) return inMetadata(field.slice('metadata.'.length), clause)
  return sql`coalesce(${answers(columns[field], clause)}, false)`
}

/** Tests the whole content for a clause. */
export const inContent = (clause: SearchClause): Test => answers(sql`documents.content`, clause)

/** Tests a text for a clause. NULL for a NULL text. */
export function answers(text: RawBuilder<unknown>, { type, value }: Pick<SearchClause, 'type' | 'value'>): Test {
  if (type === 'exact') return sql`${foldedExact(text)} = ${foldedExact(sql`${value}::text`)}`
  const patterns = type === 'contains' ? [piece(value)] : wholeWords(value)
  if (patterns.length === 0 || patterns.includes('')) return sql`false`
  // dms_plain() is inlined and reads its argument three times. The subquery and the concatenation decompress it once.
  return sql`(select dms_plain(value) ~ all (${patterns}::text[]) from (select ${text} || '' as value offset 0) tested)`
}

/** Folds a text like foldExact(). */
const foldedExact = (text: RawBuilder<unknown>) => sql`translate(lower(normalize(${text}, nfc)), 'ς', 'σ')`

/** Returns a regular expression for a literal text with any amount of space between words. It has no operators, so time is linear. */
function piece(value: string): string {
  return anySpace(normalizeText(value).replace(/[!-/:-@[-^`{-~]/g, '\\$&'))
}

const columns = {
  title: sql`documents.title`,
  filename: sql`documents.filename`,
  mime_type: sql`documents.mime_type`,
  status: sql`documents.status`,
  source_id: sql`documents.source_id::text`,
} as const

const isMetadata = (field: SearchField): field is `metadata.${string}` => field.startsWith('metadata.')

/** Tests a metadata value. Of a list, one item must match. */
function inMetadata(key: string, clause: SearchClause): Test {
  const value = sql`documents.metadata -> ${key}::text`
  return sql`exists (
    select from jsonb_array_elements_text(case jsonb_typeof(${value}) when 'array' then ${value} else jsonb_build_array(${value}) end) item (text)
    where ${answers(sql`item.text`, clause)})`
}

/** Returns a regular expression for each word. Words of scripts without spaces match anywhere. */
function wholeWords(value: string): string[] {
  return [...tokenize(value)]
    .filter(({ form }) => form !== 'joined')
    .map(({ start, end, form }) => {
      const word = normalizeText(value.slice(start, end))
      return form === 'word' ? `(?<![[:alnum:]])${word}(?![[:alnum:]])` : word
    })
}
