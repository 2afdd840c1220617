/** Settings and mapping of an index. The words of all fields are tokens of src/search/query/tokenizer.ts, separated by spaces. */

/** Version of the form of entries, by which `search reindex --if-needed` finds outdated ones. Increment it with each change. */
export const indexVersion = 1

/** Separates the tokens of one position: a word, and the joined token that begins with it. */
export const samePosition = '|'
/** Stands for a position without a word in a phrase. */
export const gap = '_'

export const textFields = ['title', 'labels', 'filename', 'content'] as const
export type TextField = (typeof textFields)[number]

/** Weight of a field in the score. */
export const weights: Readonly<Record<TextField, number>> = { title: 6, labels: 3, filename: 2, content: 1 }

/** Stemmers by the Tesseract code of a language. */
const stemmers = {
  ara: 'arabic',
  dan: 'danish',
  deu: 'german2',
  ell: 'greek',
  eng: 'english',
  fin: 'finnish',
  fra: 'french',
  hun: 'hungarian',
  ita: 'italian',
  lit: 'lithuanian',
  nld: 'dutch',
  nor: 'norwegian',
  por: 'portuguese',
  ron: 'romanian',
  rus: 'russian',
  spa: 'spanish',
  swe: 'swedish',
  tur: 'turkish',
} as const

export const hasStemmer = (language: string): boolean => Object.hasOwn(stemmers, language)

export interface IndexSettings {
  readonly shards: number
  readonly replicas: number
  /** time after which a change is searchable */
  readonly refreshIntervalMs: number
}

/** Settings of an index that answers searches. */
export const liveSettings = ({ replicas, refreshIntervalMs }: IndexSettings) => ({
  number_of_replicas: replicas,
  refresh_interval: `${refreshIntervalMs}ms`,
})

/** Settings of an index that is being filled: one copy, no refresh. */
export const fillingSettings = { number_of_replicas: 0, refresh_interval: '-1' }

const keyword = { type: 'keyword', ignore_above: 8000 } as const
/** Words without positions and frequencies. */
const bag = { type: 'text', analyzer: 'words', search_analyzer: 'query', index_options: 'docs', norms: false } as const
const words = { type: 'text', analyzer: 'words', search_analyzer: 'query', index_options: 'positions' } as const

/** Returns the body of the request that creates an index. `settings` are added to those of the index. */
export function indexBody({ shards }: IndexSettings, settings: object) {
  const languages = Object.entries(stemmers)
  return {
    settings: {
      index: {
        number_of_shards: shards,
        codec: 'best_compression',
        // A late write of an older version must not bring back a document that was deleted meanwhile.
        gc_deletes: '1h',
        ...settings,
      },
      analysis: {
        tokenizer: { words: { type: 'whitespace', max_token_length: 1024 } },
        filter: {
          positions: { type: 'pattern_capture', preserve_original: false, patterns: [`([^${samePosition}]+)`] },
          gaps: { type: 'stop', stopwords: [gap] },
          ...Object.fromEntries(languages.map(([code, language]) => [`stem_${code}`, { type: 'stemmer', language }])),
        },
        analyzer: {
          words: { type: 'custom', tokenizer: 'words', filter: ['positions'] },
          query: { type: 'custom', tokenizer: 'words', filter: ['gaps'] },
          ...Object.fromEntries(languages.map(([code]) => [code, { type: 'custom', tokenizer: 'words', filter: [`stem_${code}`] }])),
        },
      },
    },
    mappings: {
      dynamic: 'strict',
      _source: { excludes: ['any', 'stems'] },
      // Typed metadata: one column per key and type.
      dynamic_templates: [
        { text_metadata: { path_match: 'text_metadata.*', mapping: keyword } },
        { number_metadata: { path_match: 'number_metadata.*', mapping: { type: 'double' } } },
        { date_metadata: { path_match: 'date_metadata.*', mapping: { type: 'date', format: 'strict_date' } } },
      ],
      properties: {
        ...Object.fromEntries(textFields.map((field) => [field, words])),
        any: bag,
        stems: { properties: Object.fromEntries(languages.map(([code]) => [code, { properties: stemFields(code) }])) },
        id: { type: 'keyword' },
        version: { type: 'short' },
        owner_id: { type: 'keyword' },
        source_id: { type: 'keyword' },
        status: { type: 'keyword' },
        mime_type: { type: 'keyword' },
        label_ids: { type: 'keyword' },
        label_names: { type: 'keyword' },
        created_at: { type: 'date', format: 'epoch_millis' },
        updated_at: { type: 'date', format: 'epoch_millis' },
        document_date: { type: 'date', format: 'strict_date' },
        size: { type: 'long' },
        confidence: { type: 'float' },
        title_order: keyword,
        // Conditions on whole values and on parts of them: name, U+0001, value.
        values: keyword,
        exact_values: keyword,
        value_words: keyword,
        text_metadata: { type: 'object', dynamic: true },
        number_metadata: { type: 'object', dynamic: true },
        date_metadata: { type: 'object', dynamic: true },
      },
    },
  }
}

const stemFields = (code: string) =>
  Object.fromEntries(textFields.map((field) => [field, { type: 'text', analyzer: code, index_options: 'docs', norms: false }]))
