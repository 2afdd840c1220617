/** Similar documents: Lucene's MoreLikeThis. */
import type { Query } from './filter.ts'

/** Returns a query for the documents with the words of the highest tf-idf of a document, without itself. */
export const similarTo = (index: string, documentId: string): Query => ({
  more_like_this: {
    // A word that occurs only in the filename is mostly an extension.
    fields: ['title', 'labels', 'content'],
    like: [{ _index: index, _id: documentId }],
    min_term_freq: 1,
    min_doc_freq: 2,
    // Scripts without spaces have words of two characters.
    min_word_length: 2,
    max_word_length: 40,
    max_query_terms: 16,
    minimum_should_match: '20%',
  },
})
